"""A dataset in shards is read as the file it was cut from."""

import tracemalloc

import jobs
import pytest
import tiny
import torch
from optimize_child import evaluate
from optimize_child.job import Job
from optimize_child.reading import tokens
from optimize_child.reading.lines import LineIndex, read_lines
from optimize_child.reading.tokens import Reading
from optimize_child.reinforcement.prompts import Room, read_prompts
from optimize_child.rendering.masks import Policy
from optimize_child.rendering.template import ChatTemplate

pytestmark = [pytest.mark.filterwarnings("ignore"), pytest.mark.requirement("R312")]


@pytest.fixture
def cut(write_rows):
    """Rows in one file, and the same rows in three."""
    rows = tiny.ticket_rows(12)
    return [write_rows(rows, "whole.jsonl")], [
        write_rows(rows[start:end], f"examples-{place:05}.jsonl")
        for place, (start, end) in enumerate([(0, 5), (5, 6), (6, 12)])]


def test_a_run_trains_on_the_same_rows_in_the_same_order(cut, tmp_path, base_model):
    whole, shards = (
        jobs.run(tmp_path / str(number), tiny.sft_plan(base_model, files)) for number, files in enumerate(cut))
    assert jobs.metrics(shards, "loss") == jobs.metrics(whole, "loss")


def test_a_run_over_pairs_trains_on_the_same_pairs_in_the_same_order(write_rows, tmp_path, base_model):
    pairs = tiny.pair_rows(8)
    whole = [write_rows(pairs, "pairs.jsonl")]
    shards = [write_rows(part, f"examples-{place:05}.jsonl") for place, part in enumerate((pairs[:3], pairs[3:]))]
    one, several = (
        jobs.run(tmp_path / f"pairs-{number}", tiny.dpo_plan(base_model, files))
        for number, files in enumerate((whole, shards))
    )
    assert jobs.metrics(one, "loss") == jobs.metrics(several, "loss")


def test_prompts_to_roll_out_from_are_read_across_shards(cut, tokenizer):
    one, several = (
        read_prompts(files, ChatTemplate(tokenizer), Room(4096, 8), lambda _: None) for files in cut
    )
    assert [one.prompt(row) for row in range(12)] == [several.prompt(row) for row in range(12)]


def test_a_row_that_a_run_refuses_is_named_by_its_shard(cut, tmp_path, base_model):
    cut[1][2].write_text(cut[1][2].read_text() + "{}\n")
    failed = jobs.failure(jobs.run(tmp_path / "bad", tiny.sft_plan(base_model, cut[1])))
    assert "line 7 of examples-00002.jsonl" in failed["reason"]


def test_an_evaluation_answers_the_same_rows(cut, tmp_path, base_model):
    answers = []
    for number, files in enumerate(cut):
        plan = tiny.evaluation_plan(base_model, files, max_new_tokens=4)
        attempt = jobs.run(tmp_path / f"answers-{number}", plan)
        answers.append(sorted((event["position"], event["answer"]) for event in tiny.events_of(attempt, "answer")))
    assert len(answers[0]) == 12 and answers[0] == answers[1]


def long_rows(count: int) -> list[dict]:
    """Rows of 100 KB each, nearly all of it their answers: those cost no time, for only prompts are tokenised."""
    rows = tiny.ticket_rows(count)
    for row in rows:
        row["messages"][-1]["content"] *= 100_000 // len(row["messages"][-1]["content"])
    return rows


def peak_bytes(work) -> int:
    """The most memory that Python objects took while this ran, beyond what they took before."""
    tracemalloc.start()
    try:
        work()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_a_supervised_run_holds_no_rows_but_those_it_is_rendering(write_rows, tokenizer, tmp_path, monkeypatch):
    monkeypatch.setattr(tokens, "BATCH_ROWS", 2)
    chat, reading = ChatTemplate(tokenizer), Reading(Policy(), 100_000, "error")

    def peak(count: int) -> int:
        rows = tiny.ticket_rows(count)
        for row in rows:
            row["unread"] = "x" * 10_000
        file = write_rows(rows, f"rows-{count}.jsonl")
        return peak_bytes(lambda: tokens.read_tokens([file], chat, reading, lambda _: None, tmp_path))

    peak(4)
    assert peak(40) < 1.5 * peak(10)


def test_an_evaluation_holds_no_rows_but_those_it_is_asking(write_rows, tmp_path, base_model, monkeypatch):
    def answered(_model, prompts, *_, **__):
        for asked in prompts:
            asked.answer, asked.finish = [5], "stop"
            yield asked

    monkeypatch.setattr(evaluate, "load_model", lambda *_, **__: torch.nn.Identity())
    monkeypatch.setattr(evaluate, "answer_all", answered)

    def peak(count: int) -> int:
        files = [write_rows(long_rows(part), f"examples-{count}-{part}.jsonl") for part in (count // 4, 3 * count // 4)]
        attempt = jobs.prepare(tmp_path / f"of-{count}", tiny.evaluation_plan(base_model, files))
        most = peak_bytes(evaluate.Evaluation(Job(attempt)).run)
        assert len(tiny.events_of(attempt, "answer")) == count
        return most

    peak(4)  # what is loaded once is no part of what rows take
    assert peak(48) < 1.5 * peak(8)


def test_a_reinforcement_run_holds_the_prompts_of_no_more_than_an_update(write_rows, tokenizer):
    chat = ChatTemplate(tokenizer)

    def peak(count: int) -> int:
        file = write_rows(long_rows(count), f"prompts-{count}.jsonl")

        def read():
            prompts = read_prompts([file], chat, Room(100_000, 8), lambda _: None)
            assert all(prompts.prompt(row).expected for row in range(count))

        return peak_bytes(read)

    peak(4)
    assert peak(48) < 1.5 * peak(8)


def test_a_line_is_read_again_as_it_was_read_whatever_stands_around_it(tmp_path):
    first, second = tmp_path / "first", tmp_path / "second"
    first.write_bytes(b"\xef\xbb\xbf{1}\r\n\n  \n{2}\n")
    second.write_bytes("\xa0{é}\n{4}".encode())
    lines, index = list(read_lines([first, second])), LineIndex()
    for line in lines:
        index.add(line)
    assert [index.data(at) for at in (3, 0, 2, 1)] == [lines[at].data for at in (3, 0, 2, 1)]
    assert lines[0].data == b"{1}" and len(index) == 4
