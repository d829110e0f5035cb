"""Scored completions of reinforcement runs: kept once, read by update, counted, and told on route and command."""

import json

import pytest
from django.db import connection
from django.test import Client

from evaluations.models import Evaluation
from optimize_site.kernel import accounts, clock
from optimize_site.kernel.auth import LOCAL, LOCAL_SECRET
from optimize_site.kernel.garbage import BOOKKEEPING
from optimize_site.kernel.management.commands.info import Command as Info
from optimize_site.kernel.work import attempt_folder
from registry.models import BaseModel, Version
from runs.lineage import node_document
from runs.management import rollout_verbs
from runs.management.commands.runs import Command
from runs.models import Rollout, RolloutStep, Run
from runs.operations.rollouts import UNREADABLE
from runs.render import status_document
from runs.rollouts import text_index
from runs.rollouts.queries import Asked, holds, in_order, places_of
from runs.rollouts.render import rollouts_document
from runs.rollouts.text_index import INDEX
from tests.factories import make_adapter, make_dataset, make_device, make_run, put_weights
from tests.playing import STARTED, claim, end, reread, say
from tests.rolling import completion, figures, rollouts, told

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def state(tmp_path, monkeypatch):
    monkeypatch.setenv("OPTIMIZE_HOME", str(tmp_path))
    for name in ("OPTIMIZE_CONTEXT", "AKKA_CONTEXT"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def run(db):
    """A run whose job is ready to train; it scores completions, whatever it was submitted as."""
    make_device()
    made = make_run("AWAITING_CAPACITY")
    Run.objects.filter(pk=made.pk).update(method="grpo")
    return reread(made)


@pytest.fixture
def training(run):
    """The same with three updates told: one, two and three of four completions right."""
    attempt = claim(run)
    said = [event for step in (1, 2, 3) for event in (rollouts(attempt, step, told(step)), figures(step))]
    return say(run, attempt, STARTED, *said), attempt


@pytest.fixture
def client():
    return Client(headers={"Authorization": f"Bearer {LOCAL_SECRET}"})


@pytest.fixture
def ask(capsys):
    """Run a command line; gives exit status and output."""
    def ask(*argv):
        status = Command().run([str(part) for part in argv])
        return status, capsys.readouterr().out

    return ask


# Kept ----------------------------------------------------------------------------------------------------------------


@pytest.mark.requirement("R274", "R276")
def test_every_scored_completion_of_an_update_is_kept_as_it_was_told(run):
    attempt = claim(run)
    lines = [completion(0, 0, "a\x00b\ud800", {"format": 1.0, "exact": None}, finish="length", advantage=-0.5),
             completion(0, 1, "", {"format": 0.0, "exact": 0.0}, score=None, excluded=True)]
    say(run, attempt, STARTED, rollouts(attempt, 1, lines))
    first, second = Rollout.objects.order_by("index")
    assert first.completion == "a\N{REPLACEMENT CHARACTER}b\N{REPLACEMENT CHARACTER}"
    assert (first.prompt, first.asked, first.row) == (lines[0]["prompt"], "What is 2 + 3?", 10)
    assert (first.score, first.advantage, first.finish, first.terms) == (0.25, -0.5, "length", lines[0]["terms"])
    assert (second.score, second.excluded) == (None, True)
    assert RolloutStep.objects.values_list("step", "count", "attempt").get() == (1, 2, 1)


@pytest.mark.requirement("R274")
def test_a_replayed_update_takes_the_place_of_what_was_kept_of_it_and_the_file_goes_once_that_holds(
        training, django_capture_on_commit_callbacks):
    run, attempt = training
    end(run, attempt, "lost")
    again = claim(reread(run))
    with django_capture_on_commit_callbacks(execute=True):
        say(run, again, STARTED, rollouts(again, 3, told(4)[:6]))
    kept = Rollout.objects.filter(run=run, step=3)
    assert set(kept.values_list("attempt", flat=True)) == {again.number}
    assert (kept.count(), Rollout.objects.count()) == (6, 22)
    assert RolloutStep.objects.get(step=3).figures["scored_reward_mean"] == 1.25
    assert list((attempt_folder(again.pk) / "rollouts").iterdir()) == []


@pytest.mark.parametrize("spoil", [
    lambda path, event: path.unlink(), lambda path, event: path.write_text("{"),
    lambda path, event: path.write_text(path.read_text() * 2), lambda path, event: event.update(count=9),
    lambda path, event: event.update(file="../../../elsewhere/rollouts.jsonl")])
def test_a_file_that_cannot_be_used_costs_its_rollouts_and_a_warning_and_never_the_run(run, spoil):
    attempt = claim(run)
    event = rollouts(attempt, 1, told())
    spoil(attempt_folder(attempt.pk) / event["file"], event)
    run = say(run, attempt, STARTED, event, figures(1))
    assert [warning["code"] for warning in run.warnings if "code" in warning][-1] == UNREADABLE
    assert (run.observed_step, Rollout.objects.count(), RolloutStep.objects.count()) == (1, 0, 0)


# Read ----------------------------------------------------------------------------------------------------------------


@pytest.mark.requirement("R275")
def test_a_route_reads_one_update_at_a_time_and_tells_every_one_that_is_kept(training, client):
    run, _ = training
    newest = client.get(f"/v1/training/runs/{run.pk}/rollouts").json()
    assert (newest["step"], newest["steps"], newest["total"]) == (3, [1, 2, 3], 8)
    assert [(row["group"], row["index"]) for row in newest["rollouts"]][:5] == [(0, 0), (0, 1), (0, 2), (0, 3), (1, 0)]
    first = client.get(f"/v1/training/runs/{run.pk}/rollouts?step=1&limit=3&offset=6").json()
    assert [row["completion"] for row in first["rollouts"]] == ["the answer is 12", "the answer is 13"]
    assert first["rollouts"][0]["terms"][1] == {"name": "exact", "score": 0.0, "share": 0.0, "cause": "",
                                                "explanation": "exact looked"}


@pytest.fixture
def two_runs(training, run):
    """The rollouts of two runs, in which the same is said."""
    mine, _ = training
    other = make_run(configName="other")
    Run.objects.filter(pk=other.pk).update(method="grpo")
    other.refresh_from_db()
    Rollout.objects.bulk_create([Rollout(**{field.attname: getattr(row, field.attname) for field in row._meta.fields
                                            if field.attname != "id"} | {"run_id": other.pk})
                                 for row in Rollout.objects.filter(run=mine)])
    return mine, other


def found_in(run, text):
    return rollouts_document(run, Asked(every_step=True, search=text))


def test_a_text_is_found_by_an_index_over_all_updates_and_in_its_own_run_alone(two_runs):
    mine, other = two_runs
    for text in ("ANSWER is 0", "is", "100%_"):
        said = [row.pk for row in mine.rollouts.order_by("step", "group", "index") if text.lower() in row.completion]
        found = found_in(mine, text)
        assert [(row["step"], row["index"]) for row in found["rollouts"]] == list(
            Rollout.objects.filter(pk__in=said).order_by("step", "group", "index").values_list("step", "index"))
        assert (found["total"], found["searchNote"]) == (len(said), "")
    assert found_in(other, "the answer is 12")["total"] == found_in(mine, "the answer is 12")["total"] > 0
    with connection.cursor() as cursor:
        cursor.execute("SET LOCAL enable_seqscan = off; SET LOCAL enable_indexscan = off")
        assert INDEX in Rollout.objects.filter(holds("answer")).explain()


def test_a_page_shows_what_is_left_where_an_update_is_done_again_while_it_is_read(two_runs):
    mine, _ = two_runs
    places = places_of(mine, Asked(every_step=True))
    Rollout.objects.filter(pk=places[1]).delete()
    assert [row.pk for row in in_order(places[:3])] == [places[0], places[2]]


def test_where_texts_cannot_be_indexed_a_search_reads_each_rollout_and_says_so(two_runs, client, monkeypatch, capsys):
    mine, _ = two_runs
    with connection.cursor() as cursor:
        cursor.execute(f"SET CONSTRAINTS ALL IMMEDIATE; DROP INDEX {INDEX}")
    with monkeypatch.context() as patch:
        patch.setattr(text_index, "MAKE", ("CREATE EXTENSION no_such_extension",))
        assert text_index.make_text_index() is False
    assert found_in(mine, "answer is 12")["searchNote"] == text_index.SLOWLY
    assert found_in(mine, "answer is 12")["total"] > 0 and found_in(mine, "")["searchNote"] == ""
    assert client.get("/v1/training/info").json()["rolloutSearch"] == {"indexed": False, "note": text_index.SLOWLY}
    assert Info().run([]) == 0 and "pg_trgm" in capsys.readouterr().out
    assert text_index.make_text_index() is True and found_in(mine, "answer is 12")["searchNote"] == ""


@pytest.mark.requirement("R275")
def test_the_worst_and_the_best_stand_in_front_by_the_reward_or_by_a_term(run, client):
    attempt = claim(run)
    lines = [completion(0, 0, "half", {"format": 0.0, "exact": 0.5}), completion(0, 1, "form", {"format": 1.0,
             "exact": 0.0}), completion(0, 2, "left out", {"format": 1.0, "exact": 1.0}, score=None, excluded=True),
             completion(0, 3, "all", {"format": 1.0, "exact": 1.0})]
    say(run, attempt, STARTED, rollouts(attempt, 1, lines))

    def texts(**asked):
        found = client.get(f"/v1/training/runs/{run.pk}/rollouts", asked).json()
        return [row["completion"] for row in found["rollouts"]]

    assert texts(worst=2) == ["form", "half"]
    assert texts(best=4) == ["all", "half", "form", "left out"]
    assert texts(worst=1, best=1) == ["form", "all"]
    assert texts(worst=1, term="format") == ["half"]
    assert texts(best=2, worst=3) == ["form", "half", "all", "left out"]
    assert texts(search="FORM") == ["form"]
    assert texts(search="2 + 3", limit=1) == ["half"]
    assert texts(search="100%_") == []
    say(run, attempt, rollouts(attempt, 2, [completion(group, index, f"prompt {group}", {"format": 0.0, "exact": 0.0})
                                            for group in range(2) for index in range(2)]))
    assert texts(step=2, worst=2) == ["prompt 0", "prompt 1"], "equals are not all of one prompt"


@pytest.mark.requirement("R275")
def test_the_completions_of_one_prompt_are_followed_through_all_updates(training, client):
    run, _ = training
    found = client.get(f"/v1/training/runs/{run.pk}/rollouts", {"row": 11, "everyStep": True, "limit": 500}).json()
    assert (found["step"], found["total"], found["limit"]) == (None, 12, 200)
    assert [(row["step"], row["row"]) for row in found["rollouts"][3:5]] == [(1, 11), (2, 11)]


@pytest.mark.parametrize(("asked", "code"), [
    ({"worst": -1}, "invalid_worst"), ({"limit": 0}, "invalid_limit"), ({"best": 2, "offset": 3}, "invalid_offset"),
    ({"term": "length", "best": 1}, "unknown_term"), ({"search": "a" * 201}, "search_too_long"),
    ({"step": 9}, "step_not_kept"), ({"step": 2**40}, "step_not_kept"), ({"row": -1}, "invalid_row"),
    ({"term": "exact"}, "invalid_term"), ({"step": 1, "everyStep": True}, "invalid_step")])
def test_what_cannot_be_read_is_refused_with_both_values(training, client, asked, code):
    run, _ = training
    answer = client.get(f"/v1/training/runs/{run.pk}/rollouts", asked)
    assert answer.json()["code"] == code
    assert answer.status_code in {400, 404}


def test_a_run_that_samples_nothing_one_made_before_and_one_not_begun_each_say_so(run, client):
    def note():
        return client.get(f"/v1/training/runs/{run.pk}/rollouts").json()["note"]

    assert "none yet" in note()
    say(run, claim(run), STARTED, figures(1))
    assert "before rollouts were kept" in note()
    Run.objects.filter(pk=run.pk).update(method="sft")
    answer = client.get(f"/v1/training/runs/{run.pk}/rollouts")
    assert (answer.status_code, answer.json()["code"]) == (404, "no_rollouts")
    assert client.get(f"/v1/training/runs/{run.pk}/rewards").status_code == 404


def test_what_a_model_said_in_training_is_read_by_viewers_and_by_no_stranger(training, settings):
    settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
    run, _ = training
    user, _ = accounts.create_user("a-viewer", "viewer", actor=LOCAL)
    viewer = Client()
    viewer.force_login(user)
    for path in ("rollouts", "rewards"):
        assert viewer.get(f"/v1/training/runs/{run.pk}/{path}").status_code == 200
        assert Client().get(f"/v1/training/runs/{run.pk}/{path}").status_code == 401


@pytest.mark.requirement("R275")
def test_a_command_shows_them_as_a_table_with_a_column_for_each_term_and_as_a_document(training, ask):
    run, _ = training
    status, out = ask("rollouts", run.pk[:12], "--step", 1, "--worst", 1, "--best", 1)
    lines = out.splitlines()
    assert status == 0
    assert lines[0].split() == ["ROW", "SCORE", "format", "exact", "TOKENS", "ENDED", "PROMPT", "COMPLETION"]
    assert lines[1].split()[:5] == ["10", "0.25", "0.25", "0", "4"]
    assert lines[2].split()[:5] == ["10", "1.25", "0.25", "1", "4"]
    assert "What is 2 + 3?" in lines[1]
    assert lines[-1] == "2 of 8 rollouts of update 1. Kept: 3 updates, 1 to 3."
    found = json.loads(ask("rollouts", run.pk, "-o", "json")[1])
    assert (len(found["rollouts"]), found["steps"]) == (8, [1, 2, 3])
    assert "Kept: 3 updates" in ask("rollouts", run.pk, "--every-step", "--search", "answer is 01")[1]
    assert ask("rollouts", run.pk, "--step", 7)[0] == 4


def test_a_failed_term_shows_its_cause_and_texts_cannot_drive_the_terminal(run, ask):
    attempt = claim(run)
    say(run, attempt, STARTED, rollouts(attempt, 1, [
        completion(0, 0, "\x1b[31mred\x1b]0;gone\x07" + "long " * 40, {"format": 1.0, "exact": None})]))
    _, out = ask("rollouts", run.pk)
    assert out.splitlines()[1].split()[:4] == ["10", "0.25", "0.25", "timeout"]
    assert "\x1b" not in out
    assert out.splitlines()[1].rstrip().endswith("…")


# Figures -------------------------------------------------------------------------------------------------------------


@pytest.mark.requirement("R275")
def test_the_figures_of_a_reinforcement_run_have_their_columns_and_terms(training, ask, client):
    run, _ = training
    _, out = ask("metrics", run.pk, "--fields", "kl,scoredRewardMean,terms:exact,terms:total,entropy")
    assert [line.split() for line in out.splitlines()[:2]] == [
        ["STEP", "NO", "SPREAD", "SCORED", "ZERO", "SCORED", "FULL", "REWARD", "kl", "scoredRewardMean", "terms:exact",
         "terms:total", "entropy"],
        ["1", "0", "0", "0.5000", "0.7500", "0.0010", "0.5000", "0.5000", "0.7500", "1.0000"]]
    step = json.loads(ask("metrics", run.pk, "-o", "json", "--limit", 1)[1])[0]
    assert (step["step"], step["zeroVarianceGroups"], step["kl"], step["scoredRewardMean"]) == (3, 0.0, 0.003, 1.0)
    assert step["rewardTerms"] == {"total": 0.75, "format": 0.25, "exact": 0.5}
    assert step["measured"]["entropy"] == 1.0
    assert step["measured"]["completions_repeated"] == pytest.approx(0.5)
    Run.objects.filter(pk=run.pk).update(method="sft")
    assert "rewardTerms" not in client.get(f"/v1/training/runs/{run.pk}/metrics").json()["metrics"][0]


def test_a_list_shows_the_last_reward_of_a_run_that_learns_from_one_though_an_update_had_none(training, ask, client):
    run, attempt = training
    say(run, attempt, {"type": "metrics", "step": 4, "values": {"loss": 0.125, "excluded": 1.0}})
    assert "LAST" in ask("list")[1] and "reward 0.7500" in ask("list")[1]
    assert "4/6 steps (67%), reward 0.7500" in ask("get", run.pk)[1]
    (listed,) = client.get("/v1/training/runs").json()["runs"]
    for shown in (listed, status_document(reread(run)), node_document(reread(run))):
        assert (shown["lastLoss"], shown["lastFigure"]) == (0.125, {"name": "reward", "value": 0.75})
    Run.objects.filter(pk=run.pk).update(method="dpo")
    assert "loss 0.1250" in ask("list")[1]
    Run.objects.filter(pk=run.pk).update(summary={})
    assert client.get("/v1/training/runs").json()["runs"][0]["lastFigure"] is None


@pytest.mark.requirement("R273")
def test_the_command_draws_the_histograms_of_each_update_below_each_other_and_gives_them_whole_as_json(
        training, ask, client, monkeypatch):
    run, _ = training
    monkeypatch.setattr(rollout_verbs, "PAGE", 2)
    whole = client.get(f"/v1/training/runs/{run.pk}/histograms").json()
    assert json.loads(ask("histograms", run.pk, "-o", "json")[1]) == {"steps": whole["steps"], "total": 3}
    status, out = ask("histograms", run.pk[:12], "--term", "exact", "--rows", 2)
    (first, last) = [line for line in out.splitlines() if line.strip()[:1].isdigit()]
    assert status == 0 and "exact over 3 updates" in out and (first.split()[0], last.split()[0]) == ("1", "3")
    drawn = [next(word for word in line.split() if "·" in word) for line in (first, last)]
    assert drawn[0][0] == "█" and drawn[0][-1] == "▃" and drawn[1][0] == "▃" and drawn[1][-1] == "█"
    assert {len(bars) for bars in drawn} == {32}
    assert "tokens over 3 updates" in ask("histograms", run.pk, "--length")[1]
    for words in (("--term", "other"), ("--term", "exact", "--length")):
        assert ask("histograms", run.pk, *words)[0] != 0


@pytest.mark.requirement("R273")
def test_each_update_has_its_rewards_shares_and_lengths_as_histograms(training, client):
    run, _ = training
    found = client.get(f"/v1/training/runs/{run.pk}/histograms", {"limit": 2, "offset": 1}).json()
    assert [step["step"] for step in found["steps"]] == [2, 3]
    step = found["steps"][0]
    assert set(step["terms"]) == {"format", "exact"}
    for spread in (step["total"], step["length"], *step["terms"].values()):
        assert sum(spread["counts"]) == step["count"] == 8
        assert len(spread["edges"]) == len(spread["counts"]) + 1
    assert (step["total"]["p50"], step["length"]["p95"]) == (0.75, 4.0)
    assert step["terms"]["exact"]["twoGroups"] == {"low": 0.0, "high": 1.0, "lowShare": 0.5}


@pytest.mark.requirement("R271")
def test_the_reward_tells_the_seconds_of_each_term_failures_by_cause_and_the_judges_tokens(run, client, ask):
    Run.objects.filter(pk=run.pk).update(config=run.config | {"reward": {"terms": [{"weight": 0.25}, {"weight": 1}]}},
                                         references=run.references | {"reward": [{"name": "format"},
                                                                                 {"name": "exact"}]})
    failing = {"failures.timeout": 2.0, "failures.no_verdict": 1.0, "judge_tokens": 120.0, "term.exact.failures": 3.0}
    attempt = claim(run)
    say(run, attempt, STARTED, figures(1, **failing), rollouts(attempt, 2, told(1)),
        figures(2, **failing, **{"term.exact.seconds": 0.004, "reward": 0.5}))
    found = client.get(f"/v1/training/runs/{run.pk}/rewards").json()
    assert found["failures"] == {"timeout": 4, "no_verdict": 2}
    assert (found["judgeTokens"], found["reward"]["first"], found["reward"]["last"]) == (240, 0.75, 0.5)
    terms = {term["name"]: term for term in found["terms"]}
    assert (terms["format"]["weight"], terms["exact"]["weight"]) == (0.25, 1)
    assert (terms["exact"]["secondsARollout"], terms["exact"]["failures"]) == (pytest.approx(0.003), 6)
    _, out = ask("rewards", run.pk)
    assert "4 timeout, 2 no_verdict" in out
    assert "75% near 0.25, 25% near 1.25" in out
    measured = json.loads(ask("metrics", run.pk, "-o", "json")[1])[0]["measured"]
    assert (measured["failures.timeout"], measured["judge_tokens"]) == (2.0, 120.0)


# Held against each other ---------------------------------------------------------------------------------------------


def test_verifying_a_run_holds_its_rollouts_against_its_figures(training, client):
    run, _ = training

    def checked():
        found = client.get(f"/v1/training/runs/{run.pk}/verify").json()["checks"]
        return next(check for check in found if check["name"] == "rollouts")

    assert checked() == {"name": "rollouts", "count": 3, "unit": "updates", "problems": []}
    Rollout.objects.filter(step=2, group=1, index=3).delete()
    assert checked()["problems"] == ["Of update 2 7 rollouts are kept, and its job handed over 8."]
    RolloutStep.objects.filter(step=2).delete()
    assert checked()["problems"] == ["The rollouts of 1 updates are missing: 2."]


def test_what_only_a_rollout_mentions_keeps_no_bytes_alive():
    assert {"runs.Rollout", "runs.RolloutStep"} <= BOOKKEEPING


@pytest.fixture
def rising(run):
    """A run whose reward rises, with the base model that it began from and the adapter that came of it."""
    base = put_weights(BaseModel.objects.get())
    made = make_adapter(run.workload, base, run_id=run.pk)
    say(run, claim(run), STARTED, *(figures(step, reward=0.1 * step) for step in range(1, 13)))
    reward = {"terms": [{"kind": "grader", "weight": 1, "grader": "exact"},
                        {"kind": "model", "weight": 1, "model": made.pk, "instructions": "Be strict."}]}
    Run.objects.filter(pk=run.pk).update(model=made, base_revision=base.revision,
                                         config=run.config | {"reward": reward})
    return reread(run), base.version, made


def judged(run, model, score, *, dataset, grader="exact", told="", judge=None):
    return Evaluation.objects.create(
        workload=run.workload, model=model, dataset=dataset, content_hash=dataset.content_hash, grader=grader,
        grader_instructions=told, judge=judge, base_model=run.base_model, phase="COMPLETED", mean_score=score,
        ended_at=clock.now(), report={"interval": [score - 0.05, score + 0.05]})


def test_the_score_on_evaluation_data_is_held_against_a_rising_reward(rising, client, ask):
    run, base, made = rising
    rows, other = make_dataset("triage/eval", 4), make_dataset("triage/other", 5)
    judged(run, base, 0.7, dataset=rows)
    last = judged(run, made, 0.4, dataset=rows)
    signs = client.get(f"/v1/training/runs/{run.pk}/rewards").json()["signs"]
    assert [(sign["sign"], sign["curves"]) for sign in signs] == [("held_out_worse", ["reward", "evaluation"])]
    assert "triage/eval:v1 by exact fell from 0.7000 at update 0 to 0.4000 at update 12" in ask("rewards", run.pk)[1]
    Evaluation.objects.filter(pk=last.pk).update(dataset=other, content_hash=other.content_hash)
    assert client.get(f"/v1/training/runs/{run.pk}/rewards").json()["signs"] == []


@pytest.mark.parametrize(("grader", "told", "is_told"), [
    ("exact", "", False), ("numeric", "", True), ("model:{base}", "Be strict.", True),
    ("model:{made}", "Be strict.", False), ("model:{made}", "Be kind.", True)])
def test_any_grader_that_the_reward_does_not_ask_raises_the_sign_even_over_the_training_rows(
        rising, client, grader, told, is_told):
    run, base, made = rising
    rows, named = Version.objects.get(content_hash=run.config["dataset"]), grader.format(base=base.pk, made=made.pk)
    judge = {"model:{made}": made, "model:{base}": base}.get(grader)
    for model, score in ((base, 0.7), (made, 0.4)):
        judged(run, model, score, dataset=rows, grader=named, told=told, judge=judge)
    signs = client.get(f"/v1/training/runs/{run.pk}/rewards").json()["signs"]
    assert [sign["sign"] for sign in signs] == (["held_out_worse"] if is_told else [])
    by = f"model:{judge.reference}" if judge else named
    assert not is_told or f"the score on {rows.reference} by {by} fell" in signs[0]["words"]


def test_scores_under_different_graders_are_never_held_against_each_other(rising, client):
    run, base, made = rising
    rows = make_dataset("triage/eval", 4)
    judged(run, base, 0.7, dataset=rows, grader="numeric")
    judged(run, made, 0.4, dataset=rows, grader="exact")
    assert client.get(f"/v1/training/runs/{run.pk}/rewards").json()["signs"] == []
