"""The preview of a run: its first rows as tokens, exactly those that training then reads."""

import jobs
import pyarrow
import pytest
import tiny
import tiny_images
from optimize_child.job import Job
from optimize_child.reading.run_rows import read_run_rows
from optimize_child.reading.token_rows import IGNORED
from optimize_child.rendering.template import ChatTemplate
from optimize_child.rendering.token_text import pieces_of
from pyarrow import parquet
from test_masks import call, say
from test_truncation import LONG, NEVER, SHORT

OLDEST = {"config.maxSeqLength": 60, "config.data.truncation": "oldest_or_drop"}


@pytest.fixture
def preview(tmp_path, base_model, write_rows):
    """Runs the entry over some rows; gives the preview and the plan of the run it is of."""

    def preview(rows, count=5, **changes):
        plan = tiny.sft_plan(base_model, [write_rows(rows)], **changes)
        attempt = jobs.run(
            tmp_path / f"preview-{len(list(tmp_path.iterdir()))}", {**plan, "entry": "preview", "rows": count}
        )
        (finished,) = tiny.events_of(attempt, "finished")
        return finished["preview"], plan

    return preview


@pytest.mark.requirement("R130")
def test_the_preview_shows_the_tokens_and_the_mask_that_the_run_then_trains(preview, tmp_path, tokenizer):
    shown, plan = preview([SHORT, LONG, *tiny.ticket_rows(2)], **OLDEST)
    run = Job(jobs.prepare(tmp_path / "run", plan))
    rows = read_run_rows(run, ChatTemplate(tokenizer)).training
    trained = [row for row in shown["rows"] if row["state"] == "trained"]
    assert len(trained) == len(rows)
    for index, row in enumerate(trained):
        ids, labels = rows.row(index)
        assert row["ids"] == ids.tolist()
        assert row["mask"] == [int(label != IGNORED) for label in labels]
        assert "".join(row["pieces"]) == tokenizer.decode(ids)
        assert (row["tokens"], row["trainedTokens"]) == (len(ids), sum(row["mask"]))
    assert shown["chatTemplateSha256"] == ChatTemplate(tokenizer).sha256


def test_what_happened_to_each_row_is_told_in_the_runs_own_words(preview):
    calling = {"role": "assistant", "content": "looking", "tool_calls": [call()]}
    shown, _ = preview([LONG, NEVER, {"messages": [*say("where"), calling]}, {"messages": []}, SHORT], **OLDEST)
    trimmed, left_out, refused, bad, good = shown["rows"]
    assert (trimmed["state"], trimmed["isCut"]) == ("trained", False)
    assert trimmed["turnsRemoved"] > 0
    assert left_out["state"] == "left_out"
    assert refused["reason"].endswith("line 3: the chat template leaves out a call of messages[1], the answer")
    assert (bad["state"], bad["code"], bad["place"]) == ("refused", "bad_row", "line 4")
    assert (good["state"], good["turnsRemoved"]) == ("trained", 0)


def test_packed_rows_are_shown_in_their_sequences_and_special_tokens_as_such(preview):
    shown, _ = preview([SHORT, SHORT, SHORT], **{"config.data.packing": True, "config.maxSeqLength": 50})
    assert shown["sequences"] == [[1, 2], [3]]
    row = shown["rows"][0]
    assert {piece for piece, special in zip(row["pieces"], row["special"], strict=True) if special} == {
        "<|im_start|>", "<|im_end|>",
    }  # fmt: skip


def test_no_more_rows_are_read_than_asked_for(preview):
    shown, _ = preview([*tiny.ticket_rows(3), {"messages": []}], count=3)
    assert [row["state"] for row in shown["rows"]] == ["trained"] * 3


@pytest.mark.requirement("R331")
def test_rows_that_only_together_cannot_be_trained_are_told_beside_them(preview):
    tool = {"type": "function", "function": {"name": "track", "parameters": {}}}
    shown, _ = preview([{**SHORT, "tools": [tool]}, LONG], **{"base_model.rules": ["system_needs_user_with_tools"]})
    assert "line 2 of the training dataset has several turns" in shown["problem"]["reason"]


@pytest.mark.requirement("R325")
def test_prepared_rows_are_shown_as_they_stand(tmp_path, base_model):
    path = tmp_path / "rows"
    ids, masks = [[1, 5, 6], [1, 5]], [[0, 0, 1], [1, 1]]
    parquet.write_table(pyarrow.table({"input_ids": ids, "loss_mask": masks}), path)
    plan = {**tiny.sft_plan(base_model, [path]), "entry": "preview", "rows": 5}
    plan["dataset"] |= {"format": "prepared-tokens-v1", "prepared": {"files": ["rows.parquet"]}}
    (finished,) = tiny.events_of(jobs.run(tmp_path / "attempt", plan), "finished")
    good, bad = finished["preview"]["rows"]
    assert (good["ids"], good["mask"]) == ([1, 5, 6], [0, 0, 1])
    assert bad["place"] == "row 2 of rows.parquet"
    assert "row 2 of rows.parquet: The mask marks the first token, which no token before it predicts." in bad["reason"]


def test_a_row_with_images_is_shown_with_the_tokens_of_its_images(tmp_path, write_rows):
    base = tiny_images.make_image_model(tmp_path / "base")
    tiny_images.make_image(tmp_path / "5fa1", colour=(200, 30, 30))
    rows = [tiny_images.image_row("red.png"), tiny_images.image_row("lost.png")]
    plan = tiny.sft_plan(base, [write_rows(rows)], **{"dataset.images": {"red.png": str(tmp_path / "5fa1")}})
    attempt = jobs.run(tmp_path / "preview", {**plan, "entry": "preview", "rows": 2})
    good, lost = tiny.events_of(attempt, "finished")[0]["preview"]["rows"]
    assert good["tokens"] > tiny_images.TOKENS_AN_IMAGE
    assert "".join(piece for piece, bit in zip(good["pieces"], good["mask"], strict=True) if bit) == "screen<|im_end|>"
    assert (lost["state"], lost["code"]) == ("refused", "bad_row")


def test_a_character_of_several_tokens_stands_at_the_first_of_them(tokenizer):
    ids = tokenizer.encode("é the 🙂 parcel", add_special_tokens=False)
    pieces = pieces_of(tokenizer, ids)
    assert "".join(pieces) == "é the 🙂 parcel"
    assert "🙂" in "".join(piece for piece in pieces if piece)
    assert len(pieces) == len(ids)


def test_a_pair_is_shown_with_each_answer_behind_its_prompt(tmp_path, base_model, write_rows):
    pair = {"prompt": say("where"), "chosen": {"role": "assistant", "content": "there"},
            "rejected": {"role": "assistant", "content": "nowhere at all"}}
    config = {"config.method": "dpo", "config.preference": {"beta": 0.1, "lossType": "sigmoid", "fusedLoss": True}}
    plan = {**tiny.sft_plan(base_model, [write_rows([pair, {"prompt": []}])], **config), "entry": "preview", "rows": 5}
    (finished,) = tiny.events_of(jobs.run(tmp_path / "attempt", plan), "finished")
    chosen, rejected, bad = finished["preview"]["rows"]
    assert [(row["row"], row["answer"]) for row in (chosen, rejected)] == [(1, "chosen"), (1, "rejected")]
    marked = ["".join(piece for piece, bit in zip(row["pieces"], row["mask"], strict=True) if bit)
              for row in (chosen, rejected)]
    assert [text.partition("<|im_end|>")[0] for text in marked] == ["there", "nowhere at all"]
    assert (bad["row"], bad["state"]) == (2, "refused")


def test_a_reinforcement_runs_rows_are_shown_as_the_prompts_it_rolls_out(tmp_path, base_model, write_rows, tokenizer):
    tools = [{"type": "function", "function": {"name": "track", "parameters": {}}}]
    rows = [SHORT, LONG, {**SHORT, "tools": tools}]
    config = {"method": "grpo", "maxSeqLength": 60, "rlHyperparams": {"maxCompletionLength": 30}}
    plan = {**tiny.sft_plan(base_model, [write_rows(rows)]), "entry": "preview", "rows": 5, "config": config}
    (finished,) = tiny.events_of(jobs.run(tmp_path / "attempt", plan), "finished")
    good, long, tool = finished["preview"]["rows"]
    assert (good["state"], finished["preview"]["maxCompletionLength"]) == ("prompt", 30)
    text = "".join(good["pieces"])
    assert text == ChatTemplate(tokenizer).render(SHORT["messages"][:-1], None, to_answer=True)
    assert (long["state"], "maxCompletionLength 30" in long["reason"]) == ("refused", True)
    assert "offers tools" in tool["reason"]
