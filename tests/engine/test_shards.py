"""A dataset in shards is read as the file it was cut from."""

import jobs
import pytest
import tiny
from optimize_child.rl_prompts import Room, read_prompts
from optimize_child.template import ChatTemplate

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
