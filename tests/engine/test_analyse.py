"""Measuring a dataset: the report, every row's lengths, and an analysis that is killed, stopped or sharded."""

import json
import subprocess
import sys
import tracemalloc
from pathlib import Path

import jobs
import numpy as np
import pytest
import tiny
from optimize_child.analysis import chunks, measuring, whole
from optimize_child.analysis.report import Totals
from optimize_child.failures import Stopped
from optimize_child.job import Job
from optimize_child.reading.lines import read_lines
from optimize_child.reading.tokens import Reading, read_tokens
from optimize_child.rendering.masks import Conversation, Policy
from optimize_child.rendering.template import ChatTemplate
from optimize_child.rendering.template_check import TemplateCheck
from optimize_child.rendering.turns import removable_turns, without_oldest

USER, ANSWER = {"role": "user", "content": "where is my parcel"}, {"role": "assistant", "content": "late"}
NO_SYSTEM = (
    "{% if messages[0]['role'] == 'system' %}{{ raise_exception('System role not supported') }}{% endif %}"
    "{% for message in messages %}"
    "{% if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}"
    "{{ raise_exception('Conversation roles must alternate user/assistant') }}{% endif %}"
    "{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' }}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)


def chat(*words: str) -> dict:
    """A conversation of user and assistant messages in turn."""
    return {"messages": [{"role": ("user", "assistant")[at % 2], "content": text} for at, text in enumerate(words)]}


def turns(count: int, words: int = 60) -> dict:
    """A conversation of so many turns, each with a question of so many words."""
    return chat(*(text for turn in range(count) for text in ("refund " * (words + turn), f"late again {turn}")))


def two_turns_of(tokens: int, tokenizer) -> dict:
    """A conversation of two turns and exactly so many tokens."""

    def measured(row: dict) -> int:
        return len(tokenizer(ChatTemplate(tokenizer).render(row["messages"]), add_special_tokens=False)["input_ids"])

    short = turns(2, 20)["messages"]
    fewest = (tokens - measured({"messages": short})) // 2 - 2  # a word is two tokens or less
    rows = ({"messages": [{**short[0], "content": "refund " * count + end + short[0]["content"]}, *short[1:]]}
            for count in range(fewest, tokens) for end in ("", "!", "?!"))  # fmt: skip
    return next(row for row in rows if measured(row) == tokens)


@pytest.fixture
def model_with(base_model, tmp_path):
    """The tests' base model under another chat template."""

    def make(template):
        folder = tmp_path / "model"
        folder.mkdir()
        (folder / "config.json").write_bytes((base_model / "config.json").read_bytes())
        tiny.make_tokenizer(template=template).save_pretrained(folder)
        return folder

    return make


@pytest.fixture
def plan_of(base_model, tmp_path):
    def plan(files, **changes):
        body = {
            "version": 1,
            "entry": "analyse",
            "attempt": "a" * 64,
            "subject": {"kind": "analysis", "id": "b" * 64},
            "threads": 1,
            "device": {"kind": "cpu", "uuids": []},
            "base_model": {"folder": str(base_model), "revision": "r1", "repository": "test/tiny"},
            "dataset": {"files": [str(file) for file in files], "content_hash": "c" * 64, "num_examples": None},
            "product_version": "0.9.9",
            "processes": 1,
            "out": str(tmp_path / "out"),
        }
        for path, value in changes.items():
            tiny.put(body, path.split("."), value)
        return body

    return plan


@pytest.fixture
def analyse(plan_of, write_rows, tmp_path):
    """Analyses rows, or files of them, and gives back the report."""

    def run(rows, **changes):
        files = [write_rows(rows)] if isinstance(rows[0], dict) else rows
        attempt = jobs.run(tmp_path / f"attempt-{len(list(tmp_path.iterdir()))}", plan_of(files, **changes))
        (finished,) = tiny.events_of(attempt, "finished")
        return finished["report"]

    return run


@pytest.fixture
def lengths(tmp_path):
    """What the analysis wrote of every row."""
    return lambda: np.fromfile(tmp_path / "out" / "lengths.bin", dtype="<i4").reshape(-1, 4)


@pytest.fixture
def small_chunks(monkeypatch):
    """Cuts even small files into several stretches."""
    monkeypatch.setattr(whole, "cut", lambda files: chunks.cut(files, smallest=4000))


@pytest.mark.requirement("R344")
def test_a_report_says_how_long_the_rows_are_and_under_what(analyse):
    rows = [chat("refund " * words, "late") for words in (400, *range(10, 109))]
    report = analyse(rows, template_origin="corrected")
    assert report["tokenizer"] == {"repository": "test/tiny", "revision": "r1"}
    assert len(report["chatTemplateSha256"]) == 64
    assert (report["templateOrigin"], report["productVersion"], report["rows"]) == ("corrected", "0.9.9", 100)
    longest = report["longestRows"]
    assert (longest[0]["line"], longest[0]["row"], longest[0]["tokens"]) == (1, 0, report["lengths"]["longest"])
    assert longest[1]["line"] == 100
    assert len(longest) == 20
    assert report["limits"][0] == {"limit": 512, "over": 1, "overTrimmed": 1}
    assert [limit["limit"] for limit in report["limits"]] == [512, 1024, 2048, 4096, 8192, 16384, 32768]
    assert report["suggestedMaxSeqLength"] == 1024
    assert sum(report["histogram"]["counts"]) == 100


@pytest.mark.requirement("R344")
def test_a_share_of_rows_is_the_least_length_that_so_many_do_not_exceed(analyse, lengths):
    report = analyse([chat("refund " * words, "late") for words in range(1, 101)])
    tokens = sorted(lengths()[:, 0].tolist())
    found = report["lengths"]
    assert (found["median"], found["p90"], found["p99"]) == (tokens[49], tokens[89], tokens[98])
    assert (found["longest"], found["mean"]) == (tokens[99], round(sum(tokens) / 100, 1))
    assert report["totalTokens"] == sum(tokens)


@pytest.mark.requirement("R344")
def test_the_suggested_length_is_never_beyond_the_models_context(analyse):
    report = analyse([chat("refund " * 3000, "late")])
    assert report["lengths"]["longest"] > 2048
    assert report["suggestedMaxSeqLength"] == 2048


@pytest.mark.requirement("R344")
@pytest.mark.parametrize(
    ("longest", "suggested"), [(1, 512), (512, 512), (513, 1024), (32768, 32768), (32769, 33 * 1024)]
)
def test_the_suggested_length_is_the_least_common_limit_that_holds_every_row(longest, suggested):
    totals = Totals()
    totals.add(np.array([[longest, longest, 1, 1], [1, 1, 1, 1]]))
    assert (totals.suggested(None), totals.suggested(300)) == (suggested, 300)


@pytest.mark.requirement("R344", "R349")
def test_every_row_has_the_lengths_that_training_would_read(analyse, lengths, tokenizer, write_rows):
    rows = [
        *tiny.ticket_rows(20),
        turns(4),
        turns(1, 600),
        chat("hé 👩‍👩‍👧 <|im_end|> x", "späť\n<|im_start|>"),
        turns(12),
    ]
    report = analyse(rows)
    template = ChatTemplate(tokenizer)
    for column, policy in ((2, Policy()), (3, Policy(all_turns=True))):
        read = read_tokens([write_rows(rows)], template, Reading(policy, 10**6, "error"), lambda _done: None)
        assert lengths()[:, 0].tolist() == read.lengths().tolist()
        assert [int((read.row(at)[1] >= 0).sum()) for at in range(len(rows))] == lengths()[:, column].tolist()
    assert report["trainedTokens"] == {"default": int(lengths()[:, 2].sum()), "all": int(lengths()[:, 3].sum())}
    assert report["trainedTokens"]["all"] > report["trainedTokens"]["default"]


@pytest.mark.requirement("R349")
def test_a_row_over_512_tokens_is_measured_with_its_last_turn_only(analyse, lengths, tokenizer):
    rows = [
        turns(12),
        turns(2, 20),
        turns(1, 700),
        {"messages": [{"role": "system", "content": "x"}, *turns(9)["messages"]]},
        two_turns_of(512, tokenizer),
        two_turns_of(513, tokenizer),
    ]
    report = analyse(rows)
    check = TemplateCheck(ChatTemplate(tokenizer))
    assert lengths()[-2:, 0].tolist() == [512, 513]
    for row, (tokens, trimmed, *_) in zip(rows, lengths().tolist(), strict=True):
        messages = row["messages"]
        shortest = Conversation(check, without_oldest(messages, removable_turns(messages)), None)
        expected = len(tokenizer(shortest.text, add_special_tokens=False)["input_ids"])
        assert trimmed == (expected if tokens > 512 else tokens)
    assert report["limits"][0] == {"limit": 512, "over": 4, "overTrimmed": 1}
    assert report["longestRows"][0]["trimmedTokens"] == lengths()[report["longestRows"][0]["row"], 1]


@pytest.mark.requirement("R344", "R349")
def test_a_row_is_over_a_limit_from_one_token_more_on():
    totals = Totals()
    totals.add(np.array([[512, 512, 1, 1], [513, 512, 1, 1], [2000, 513, 1, 1]]))
    found = [(one["limit"], one["over"], one["overTrimmed"]) for one in totals.limits()]
    assert found[:3] == [(512, 2, 1), (1024, 1, 0), (2048, 0, 0)]


@pytest.mark.requirement("R350")
def test_a_pair_is_as_long_as_the_longer_of_its_prompt_with_each_answer(analyse, lengths, tokenizer):
    pair = {"prompt": [USER], "chosen": ANSWER, "rejected": {"role": "assistant", "content": "late " * 40}}
    report = analyse(
        [pair, {**pair, "chosen": pair["rejected"], "rejected": ANSWER}], **{"dataset.format": "preference-jsonl-v1"}
    )
    whole_row = ChatTemplate(tokenizer).render([USER, pair["rejected"]])
    longer = len(tokenizer(whole_row, add_special_tokens=False)["input_ids"])
    assert lengths()[:, 0].tolist() == [longer, longer]
    assert report["format"] == "preference-jsonl-v1"
    assert 40 < lengths()[0, 2] == lengths()[0, 3] < longer


@pytest.mark.requirement("R349", "R350")
def test_a_pair_that_is_trimmed_is_as_long_as_the_longer_of_what_is_left(analyse, lengths, tokenizer):
    late = {"role": "assistant", "content": "late " * 40}
    pair = {"prompt": [*turns(9)["messages"], USER], "chosen": ANSWER, "rejected": late}
    analyse([pair], **{"dataset.format": "preference-jsonl-v1"})
    left = ChatTemplate(tokenizer).render([USER, late])
    assert lengths()[0, 1] == len(tokenizer(left, add_special_tokens=False)["input_ids"]) < 512 < lengths()[0, 0]


SHOWN = "{% for message in messages %}{{ message['role'] + ': ' + message['content'] + '\n' }}{% endfor %}"


@pytest.mark.requirement("R349")
@pytest.mark.parametrize("alone", ["{{ raise_exception('too short') }}", "{{ 'late ' * 900 }}"])
def test_a_row_whose_last_turn_alone_is_refused_or_longer_is_measured_whole(analyse, lengths, model_with, alone):
    template = "{% if messages | length < 3 %}" + alone + "{% endif %}" + SHOWN
    analyse([turns(12)], **{"base_model.folder": str(model_with(template))})
    assert 512 < lengths()[0, 0] == lengths()[0, 1]


@pytest.mark.requirement("R349")
def test_a_trimmed_row_keeps_its_tools(analyse, lengths, model_with):
    template = "{% if tools %}{{ tools | tojson }}{% endif %}" + SHOWN
    look_up = {"name": "look_up", "description": "late " * 200, "parameters": {"type": "object", "properties": {}}}
    rows = [turns(12), {**turns(12), "tools": [{"type": "function", "function": look_up}]}]
    analyse(rows, **{"base_model.folder": str(model_with(template))})
    (plain, _), (tooled, _) = lengths()[:, [1, 0]].tolist()
    assert plain < 200 < tooled - plain


@pytest.mark.requirement("R337", "R338")
def test_f29_f30_a_row_that_the_template_refuses_is_named_with_the_templates_reason(analyse, lengths, model_with):
    system = {"messages": [{"role": "system", "content": "x"}, USER, ANSWER]}
    rows = [chat("a", "b"), system, {"messages": [USER, ANSWER, USER, USER, ANSWER]}]
    report = analyse(rows, **{"base_model.folder": str(model_with(NO_SYSTEM))})
    assert report["templateProblemRows"] == 2
    first, second = report["templateProblems"]
    assert (first["line"], first["row"], first["kind"]) == (2, 1, "refused")
    assert "System role not supported" in first["reason"]
    assert second["line"] == 3
    assert "Conversation roles must alternate" in second["reason"]
    assert lengths()[1:].tolist() == [[0] * 4, [0] * 4]
    assert report["lengths"]["mean"] == lengths()[0, 0]


@pytest.mark.requirement("R337", "R338")
def test_a_call_that_the_template_leaves_out_is_named_with_its_row_text_or_none(analyse):
    call = {"id": "c1", "type": "function", "function": {"name": "track", "arguments": {}}}
    result = {"role": "tool", "tool_call_id": "c1", "content": "in Lyon"}
    rows = [
        {"messages": [USER, {"role": "assistant", "content": text, "tool_calls": [call]}, result, ANSWER]}
        for text in ("let me look", "")
    ]
    report = analyse(rows)
    assert [(one["line"], one["kind"], one["where"]) for one in report["templateProblems"]] == [
        (1, "call_dropped", "earlier"),
        (2, "call_dropped", "earlier"),
    ]


@pytest.mark.requirement("R337")
def test_a_pair_that_is_not_rendered_after_its_prompt_is_a_problem_of_its_answer(analyse, model_with):
    moves = "{% if not add_generation_prompt %}!{% endif %}" + tiny.CHATML
    pair = {"prompt": [USER], "chosen": ANSWER, "rejected": {"role": "assistant", "content": "lost"}}
    report = analyse([pair], **{"dataset.format": "preference-jsonl-v1", "base_model.folder": str(model_with(moves))})
    (problem,) = report["templateProblems"]
    assert (problem["where"], problem["kind"]) == ("answer", "refused")


def test_rows_whose_assistant_messages_the_template_makes_one_turn_are_named(analyse, model_with):
    joins = (
        "{% for m in messages %}{% if m['role'] == 'user' %}<|im_start|>{{ m['content'] }}<|im_end|>"
        "{% else %}{{ m['content'] }}{% endif %}{% endfor %}<|endoftext|>"
    )
    rows = [chat("a", "b"), {"messages": [USER, ANSWER, {"role": "assistant", "content": "again"}]}]
    apart = analyse(rows)["consecutiveAssistant"]
    assert apart == {"rows": 0, "separate": 1, "first": []}
    joined = analyse(rows, **{"base_model.folder": str(model_with(joins))})["consecutiveAssistant"]
    assert joined == {"rows": 1, "separate": 0, "first": [{"line": 2, "row": 1}]}


def test_equal_rows_nearly_equal_rows_labels_and_languages_are_counted(analyse):
    ticket = " ".join(f"my parcel {word} is late and the" for word in tiny.WORDS)
    answers = [json.dumps({"queue": queue, "note": "free text " * 10}) for queue in "aab"]
    rows = [
        chat(ticket, answers[0]),
        chat(ticket + " again", answers[1]),
        chat(
            "das ist nicht die Rechnung die wir mit der Post haben und was kann ich nun mit den Sachen tun", answers[2]
        ),
        chat(ticket, answers[0]),
    ]
    report = analyse(rows)
    assert (report["duplicates"]["exact"], report["duplicates"]["near"]) == (1, 1)
    assert report["duplicates"]["examples"] == [
        {"kind": "exact", "line": 4, "row": 3, "of": {"line": 1, "row": 0}},
        {"kind": "near", "line": 2, "row": 1, "of": {"line": 1, "row": 0}},
    ]
    assert report["labels"] == [
        {"field": "queue", "rows": 4, "distinct": 2, "values": [{"value": "a", "rows": 3}, {"value": "b", "rows": 1}]}
    ]
    assert report["languages"] == [{"language": "en", "rows": 3}, {"language": "de", "rows": 1}]


@pytest.mark.requirement("R312")
def test_shards_measure_like_one_file_and_their_rows_are_named_with_their_shard(analyse, write_rows, lengths):
    rows = [*tiny.ticket_rows(30), turns(3, 90), tiny.ticket_rows(1)[0]]
    one = analyse(rows)
    whole_lengths = lengths()
    two = analyse([write_rows(rows[:17], "3fa9"), write_rows(rows[17:], "77b0")])
    assert two["longestRows"][0]["line"] == 14
    assert two["longestRows"][0]["shard"] == "examples-00001.jsonl"
    assert np.array_equal(lengths(), whole_lengths)
    for name in ("lengths", "limits", "trainedTokens", "labels", "languages", "histogram"):
        assert two[name] == one[name]
    assert two["duplicates"]["exact"] == one["duplicates"]["exact"] > 0


@pytest.mark.requirement("R312")
def test_several_processes_and_stretches_give_what_one_gives(analyse, lengths, small_chunks, monkeypatch):
    rows = [*tiny.ticket_rows(150), turns(4)]
    several = analyse(rows, processes=3)
    found = lengths()
    monkeypatch.undo()
    one = analyse(rows)
    assert several == one
    assert np.array_equal(found, lengths())


@pytest.mark.requirement("R312")
def test_memory_does_not_grow_with_the_dataset(plan_of, write_rows, tmp_path, monkeypatch):
    monkeypatch.setattr(whole, "cut", lambda files: chunks.cut(files, smallest=400_000))
    rows = [{**row, "unread": "x" * 80_000} for row in tiny.ticket_rows(6)]
    peaks = []
    for number, count in enumerate((1, 1, 8)):  # what is loaded once is no part of what rows take
        plan = plan_of([write_rows(rows * count)], out=str(tmp_path / f"out-{number}"))
        attempt = jobs.prepare(tmp_path / f"attempt-{number}", plan)
        tracemalloc.start()
        whole.Analysis(Job(attempt)).run()
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[2] < 1.5 * peaks[1]


def test_an_analysis_that_was_stopped_goes_on_where_it_was(
    analyse, plan_of, write_rows, small_chunks, tmp_path, monkeypatch
):
    rows, measured = tiny.ticket_rows(60), []
    measure = measuring.Measurer.measure

    def counting(self, lines, tick):
        measured.append(1)
        if len(measured) == 3:
            raise Stopped("stop")
        return measure(self, lines, tick)

    monkeypatch.setattr(measuring.Measurer, "measure", counting)
    first = jobs.run(tmp_path / "first", plan_of([write_rows(rows)]))
    assert tiny.events_of(first, "stopped")[0]["reason"] == "stop"
    total = len(chunks.cut([tmp_path / "train.jsonl"], smallest=4000))
    report = analyse(rows)
    assert len(measured) - 1 == total > 4
    assert report["rows"] == 60
    assert not list((tmp_path / "out" / "parts").iterdir())


def test_partial_results_of_other_rows_are_thrown_away(
    analyse, plan_of, write_rows, small_chunks, tmp_path, monkeypatch
):
    monkeypatch.setattr(whole.Analysis, "_report", lambda _self: (_ for _ in ()).throw(Stopped("stop")))
    jobs.run(tmp_path / "first", plan_of([write_rows(tiny.ticket_rows(40))]))
    assert len(list((tmp_path / "out" / "parts").glob("part-*"))) > 2
    monkeypatch.undo()
    report = analyse(tiny.ticket_rows(5, seed=3), **{"dataset.content_hash": "d" * 64})
    assert report["rows"] == 5


def test_a_process_that_dies_fails_the_analysis_and_the_next_attempt_goes_on(
    analyse, plan_of, write_rows, small_chunks, tmp_path, monkeypatch
):
    rows = tiny.ticket_rows(60)
    monkeypatch.setattr(measuring.Measurer, "measure", lambda *_: (_ for _ in ()).throw(RuntimeError("gone")))
    attempt = jobs.run(tmp_path / "first", plan_of([write_rows(rows)], processes=2))
    assert jobs.failure(attempt)["code"] == "unexpected"
    monkeypatch.undo()
    assert analyse(rows, processes=2)["rows"] == 60


@pytest.mark.requirement("R324")
def test_a_bad_line_fails_the_analysis_and_is_named(plan_of, write_rows, tmp_path):
    good = write_rows([chat("a", "b")], "one")
    bad = tmp_path / "two"
    bad.write_text(json.dumps(chat("a", "b")) + '\n\n{"messages": []}\n')
    failure = jobs.failure(jobs.run(tmp_path / "attempt", plan_of([good, bad])))
    assert failure["code"] == "bad_row"
    assert failure["reason"].startswith("1 row cannot be measured. line 3 of examples-00001.jsonl: messages: ")


def test_prepared_token_rows_are_refused(plan_of, write_rows, tmp_path):
    plan = plan_of([write_rows([chat("a", "b")])], **{"dataset.format": "prepared-tokens-v1"})
    assert jobs.failure(jobs.run(tmp_path / "attempt", plan))["code"] == "data_error"


def test_progress_counts_rows(plan_of, write_rows, small_chunks, tmp_path, monkeypatch):
    monkeypatch.setattr(whole, "TOLD_SECONDS", 0)
    plan = plan_of([write_rows(tiny.ticket_rows(60))], **{"dataset.num_examples": 60})
    stages = tiny.events_of(jobs.run(tmp_path / "attempt", plan), "stage")
    told = [(one["done"], one["total"], one["unit"]) for one in stages if one["name"] == "measuring"]
    assert told[0] == (0, 60, "rows")
    assert told[-1] == (60, 60, "rows")
    assert told == sorted(told)


def test_an_analysis_does_without_torch(plan_of, write_rows, tmp_path):
    attempt = jobs.prepare(tmp_path / "attempt", plan_of([write_rows(tiny.ticket_rows(4))]))
    code = (
        f"from optimize_child import job; from pathlib import Path; job.main(Path({str(attempt)!r}));"
        "import sys; print('torch._C' in sys.modules)"
    )
    root = Path(measuring.__file__).parents[2]
    process = subprocess.run(
        [sys.executable, "-P", "-c", f"import sys; sys.path.insert(0, {str(root)!r}); {code}"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert process.stdout.strip() == "False"
    assert tiny.events_of(attempt, "finished")


def test_the_lines_of_stretches_are_the_lines_of_the_file(tmp_path):
    path = tmp_path / "rows"
    path.write_bytes(
        b"\xef\xbb\xbf" + b"".join(b"%d\r\n" % (10**at) if at % 3 else b"\n" for at in range(40)) + b"last"
    )
    expected = [line.data for line in read_lines([path])]
    for size in (1, 2, 7, 64, 10**6):
        cut = chunks.cut([path], smallest=size)
        lines = [data for chunk in cut for _, data in chunks.lines_of(path, chunk)]
        assert [data for data in lines if data.strip()] == expected
        assert len(lines) == 41
