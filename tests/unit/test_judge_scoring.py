"""A model as a term of a score: what it is asked, what is read from its answer, and what goes wrong in between."""

import json
import os
import socket
import threading
from contextlib import contextmanager
from pathlib import Path

import pytest

from evaluations.scoring.judge import MOST_LOSSES, JudgeScorer, make_judge
from evaluations.scoring.judge_words import judge_messages, read_judgement
from evaluations.scoring.makers import make_terms
from evaluations.scoring.spec import Limits, read_spec
from evaluations.scoring.terms import Item, NotReady, Term, score_term

PROMPT = [{"role": "system", "content": "You route tickets."},
          {"role": "user", "content": "My card was charged twice."}]


def item(completion="billing", expected="the secret answer"):
    return Item(0, PROMPT, completion, expected)


def asked(messages):
    return json.loads(messages[1]["content"])


@pytest.mark.requirement("R029")
def test_a_judge_is_asked_with_input_output_and_calls_and_never_with_the_expected_answer():
    calls = [{"name": "refund", "arguments": {"id": 3}}]
    messages = judge_messages("Grade.", PROMPT[1:], "Done.", calls)
    assert messages[0] == {"role": "system", "content": "Grade."}
    assert asked(messages) == {"input": "My card was charged twice.", "output": "Done.", "outputCalls": calls}


def test_a_conversation_is_shown_whole_without_the_system_message_that_the_instructions_hold():
    talk = [*PROMPT, {"role": "assistant", "content": "Which?"}, {"role": "user", "content": "The blue one."}]
    assert [message["role"] for message in asked(judge_messages("Grade.", talk, "x", None))["input"]] == [
        "system", "user", "assistant", "user"]
    held = judge_messages("They were told: You route tickets. Grade.", PROMPT, "x", None)
    assert asked(held)["input"] == "My card was charged twice."


@pytest.mark.parametrize(("text", "score", "reason"), [
    ('{"score": 0.8, "reason": "Close."}', 0.8, "Close."),
    ('Sure:\n```json\n{"score": 1, "explanation": "All  right."}\n```', 1.0, "All right."),
    ('<think>{"score": 0}</think>{"reason": "Wrong.", "score": "0.25"}', 0.25, "Wrong."),
    ('{"score": true, "reason": "Yes."}', 1.0, "Yes."),
    ('{"score": 0.5, "reason": "It was cut in the mid', 0.5, ""),
    ("**Score**: 0.7, because it is fine", 0.7, ""),
    ("0.3", 0.3, ""),
])
def test_a_verdict_is_read_from_whatever_states_it(text, score, reason):
    verdict = read_judgement(text)
    assert (verdict.score, verdict.explanation, verdict.cause) == (score, reason, "")
    assert verdict.is_exact is (score == 1.0)


@pytest.mark.parametrize("text", [
    "", "It is good.", '{"score": 8, "reason": "x"}', '{"score": -0.1}', '{"score": null}', '{"score": "high"}',
    "Score: 8/10", '{"score": NaN}', '{"score": 1e999}', '{"grade": 1}', "version 1.2.3", '{"score": {"a": 1}}',
])
def test_an_answer_without_a_verdict_is_unscored_and_no_zero(text):
    verdict = read_judgement(text)
    assert (verdict.score, verdict.cause) == (None, "no_verdict")
    assert verdict.explanation


@contextmanager
def judge_at(path: Path, *behaviours):
    """A socket at which each connection meets the next behaviour, a function of its request and what sends a line."""
    server = socket.socket(socket.AF_UNIX)
    server.bind(str(path))
    server.listen()

    def serve():
        for behave in behaviours:
            connection, _ = server.accept()
            with connection, connection.makefile("rb") as read:
                while (line := read.readline()) and behave(
                        json.loads(line), lambda body, to=connection: to.sendall(json.dumps(body).encode() + b"\n")):
                    pass

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    yield
    server.close()
    thread.join(5)


def verdict_on(index, score=1.0):
    return {"id": 1, "index": index, "answer": json.dumps({"score": score, "reason": f"It is {score}."}),
            "finish": "stop", "promptTokens": 30, "completionTokens": 10}


def answers_all(request, say):
    for index in reversed(range(len(request["items"]))):
        say(verdict_on(index, index / 10))
    say({"id": request["id"], "done": True})
    return True


def hangs_up(request, say):
    say(verdict_on(0, 0.5))
    return False


@pytest.fixture
def path(tmp_path):
    return tmp_path / "judge.sock"


@pytest.mark.requirement("R271")
def test_every_item_gets_its_verdict_in_order_and_the_judges_tokens_are_counted(path):
    with judge_at(path, answers_all):
        scorer = make_judge({"socket": str(path), "instructions": "Grade.", "source": "stated"}, Limits(), None)
        scored = score_term(Term("judge", scorer, waits=True), [item(), item(), item()])
        assert [verdict.score for verdict in scored.verdicts] == [0.0, 0.1, 0.2]
        assert scored.tokens == 120
        assert score_term(Term("judge", scorer), [item()]).tokens == 40
        scorer.close()


def test_a_judge_that_is_lost_is_asked_for_the_rest_once_it_is_back(path):
    with judge_at(path, hangs_up, answers_all):
        scorer = JudgeScorer(path, "Grade.", seconds=5)
        verdicts = scorer.score([item(), item(), item()])
        assert [verdict.score for verdict in verdicts] == [0.5, 0.0, 0.1]
        scorer.close()


def test_a_judge_that_is_lost_again_as_soon_as_it_is_back_is_asked_until_it_answers(path):
    def lost(request, say):
        return False

    with judge_at(path, hangs_up, lost, lost, answers_all):
        scorer = JudgeScorer(path, "Grade.", seconds=5)
        assert [verdict.score for verdict in scorer.score([item(), item(), item()])] == [0.5, 0.0, 0.1]
        scorer.close()


@pytest.mark.requirement("R272")
def test_a_judge_that_stays_away_costs_the_scores_it_had_not_given_and_says_so(path):
    with judge_at(path, hangs_up):
        scorer = JudgeScorer(path, "Grade.", seconds=5, patience=0.05)
        path.unlink()
        verdicts = scorer.score([item(), item()])
        assert [(verdict.score, verdict.cause) for verdict in verdicts] == [(0.5, ""), (None, "connection")]
        assert scorer.score([item()])[0].cause == "connection"


@pytest.mark.requirement("R272")
def test_a_judge_that_says_nothing_for_too_long_is_a_timeout(path):
    def waits(request, say):
        say(verdict_on(1, 0.5))
        return True

    with judge_at(path, waits, answers_all):
        scorer = JudgeScorer(path, "Grade.", seconds=0.1)
        assert [(verdict.score, verdict.cause) for verdict in scorer.score([item(), item()])] == [
            (None, "timeout"), (0.5, "")]
        assert scorer.score([item()])[0].score == 0.0
        scorer.close()


def test_what_the_judge_could_not_be_asked_keeps_its_own_cause(path):
    def too_long(request, say):
        say({"id": 1, "index": 0, "cause": "prompt_too_long", "detail": "9000 tokens."})
        say({"id": 1, "done": True})
        return True

    with judge_at(path, too_long):
        scorer = JudgeScorer(path, "Grade.", seconds=5)
        assert scorer.score([item()])[0].cause == "prompt_too_long"
        scorer.close()


def test_a_socket_whose_path_is_longer_than_the_kernel_takes_is_reached_through_its_folder(tmp_path):
    folder = tmp_path / ("long" * 30)
    folder.mkdir()
    where = os.open(folder, os.O_RDONLY)
    with judge_at(Path(f"/proc/self/fd/{where}/j.sock"), answers_all):
        scorer = JudgeScorer(folder / "j.sock", "Grade.", seconds=5)
        assert scorer.score([item()])[0].score == 0.0
        scorer.close()
    os.close(where)


@pytest.mark.parametrize(("body", "code"), [
    ({"socket": "/nowhere/j.sock", "instructions": "Grade."}, "judge_not_answering"),
    ({"socket": "j.sock", "instructions": "Grade."}, "bad_spec"), ({"socket": "/a/j.sock"}, "bad_spec"),
    ("judge", "bad_spec"),
])
def test_a_judge_that_cannot_be_reached_at_all_refuses_the_whole_scorer(body, code, monkeypatch):
    monkeypatch.setattr("evaluations.scoring.judge.START_SECONDS", 0.0)
    with pytest.raises(NotReady) as refused:
        make_judge(body, Limits(), None)
    assert refused.value.code == code


class Clock:
    """Stands for the module `time`: connecting takes as long as a test says."""

    def __init__(self):
        self.now, self.patience = 0.0, []

    def monotonic(self):
        return self.now

    def connects(self, *took):
        """Connects that take so long each, to a judge that is gone again when it is asked; the last fails."""
        left = list(took)

        def connect(path, patience):
            self.patience.append(patience)
            self.now += left.pop(0)
            if not left:
                raise FileNotFoundError(2, "No such file or directory")
            return Gone()

        return connect


class Gone:
    def say(self, body):
        raise ConnectionError

    def close(self):
        pass


@pytest.fixture
def clock(monkeypatch):
    made = Clock()
    monkeypatch.setattr("evaluations.scoring.judge.time", made)
    monkeypatch.setattr("evaluations.scoring.makers.time", made)
    return made


@pytest.mark.requirement("R272")
def test_a_request_waits_once_for_a_judge_however_often_it_is_lost(clock, monkeypatch, path):
    monkeypatch.setattr("evaluations.scoring.judge._connect", clock.connects(0, 0, 400, 200))
    scorer = JudgeScorer(path, "Grade.", seconds=5)
    assert scorer.score([item()])[0].cause == "connection"
    assert clock.patience == [240, 600, 600, 200], "the waits of one request share its ten minutes"


def test_a_judge_that_goes_on_being_lost_over_a_request_is_not_asked_for_ever(path):
    def lost(request, say):
        return False

    with judge_at(path, *[lost] * (MOST_LOSSES + 1)):
        scorer = JudgeScorer(path, "Grade.", seconds=5)
        assert scorer.score([item()])[0].cause == "connection"
        scorer.close()


def test_all_judges_together_are_waited_for_no_longer_than_one_at_the_start(clock, monkeypatch, path):
    monkeypatch.setattr("evaluations.scoring.judge._connect", clock.connects(200, 40))
    terms = [{"name": name, "judge": {"socket": str(path), "instructions": "Grade."}} for name in ("one", "two")]
    with pytest.raises(NotReady):
        make_terms(read_spec({"terms": terms}))
    assert clock.patience == [240, 40]
