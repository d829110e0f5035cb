"""Rows longer than maxSeqLength under each value of data.truncation: what goes, what stays, what is counted."""

import jobs
import pytest
import tiny
from optimize_child.failures import JobFailure
from optimize_child.job import Job
from optimize_child.reading.refusals import NAMED_ROWS
from optimize_child.reading.row_fit import LongRows
from optimize_child.reading.run_rows import read_run_rows, sequences_of
from optimize_child.reading.token_rows import IGNORED
from optimize_child.reading.tokens import Reading, read_tokens
from optimize_child.rendering.masks import Policy
from optimize_child.rendering.template import ChatTemplate
from optimize_child.rendering.turns import removable_turns, turn_starts, without_oldest
from optimize_child.training.run_settings import data_fit
from test_masks import call, say, stock

SYSTEM = {"role": "system", "content": "help"}
LAST = say("order", "again")
SHORT = {"messages": [SYSTEM, *LAST]}
TURNS = [say(f"late {'parcel ' * 8}", f"sorry {number}") for number in range(4)]
LONG = {"messages": [SYSTEM, *(message for turn in TURNS for message in turn), *LAST]}
NEVER = {"messages": [SYSTEM, *TURNS[0], *say("late " * 80, "no")]}


@pytest.fixture
def read(tokenizer, write_rows):
    chat = ChatTemplate(tokenizer)

    def read(rows, *, limit=60, truncation="oldest", column=None, policy=Policy()):  # noqa: B008
        reading = Reading(policy, limit, truncation, column, dataset="training")
        return read_tokens([write_rows(rows)], chat, reading, lambda _done: None)

    return read


@pytest.fixture
def text_of(tokenizer):
    def text_of(rows, index, *, trained=False):
        ids, labels = rows.row(index)
        return tokenizer.decode(ids[labels != IGNORED] if trained else ids)

    return text_of


@pytest.mark.requirement("R097")
def test_a_turn_begins_with_a_user_message_and_what_stands_before_the_first_is_one():
    greeted = [SYSTEM, {"role": "assistant", "content": "hello"}, *TURNS[0], *LAST]
    assert turn_starts(greeted) == [1, 2, 4]
    assert removable_turns(greeted) == 2
    assert without_oldest(greeted, 1) == [SYSTEM, *TURNS[0], *LAST]
    assert removable_turns(LAST) == 0


@pytest.mark.requirement("R097", "R098", "R100")
def test_f07_oldest_removes_whole_turns_oldest_first_and_no_more_than_needed(read, text_of):
    rows = read([SHORT, LONG])
    text = text_of(rows, 1)
    assert text.startswith("<|im_start|>system\nhelp<|im_end|>\n<|im_start|>user\nlate")
    assert text.rstrip().endswith("again<|im_end|>")
    kept = text.count("<|im_start|>user") - 1
    assert [f"sorry {number}" in text for number in range(4)] == [number >= 4 - kept for number in range(4)]
    assert 0 < kept < 4
    assert (rows.trimmed, rows.turns_removed, rows.too_long) == (1, 4 - kept, 0)
    one_more = tiny.make_tokenizer().apply_chat_template([SYSTEM, *TURNS[3 - kept], *LAST], tokenize=False)
    assert f"sorry {3 - kept}" in one_more
    assert len(rows.row(1)[0]) <= 60


@pytest.mark.requirement("R098")
def test_the_answers_of_removed_turns_are_not_trained_under_all(read, text_of):
    rows = read([LONG], policy=Policy(all_turns=True))
    trained = text_of(rows, 0, trained=True)
    assert trained.endswith("again<|im_end|>")
    assert "sorry 0" not in trained
    assert "sorry 3" in trained


@pytest.mark.requirement("R098")
def test_a_call_and_its_result_go_together(write_rows):
    chat = stock("qwen2.5")
    asked = {"role": "assistant", "content": "Let me look.", "tool_calls": [call(parcel=7)]}
    answered = {"role": "tool", "tool_call_id": "c1", "name": "track", "content": "in Lyon"}
    first = [*say("where is it"), asked, answered, {"role": "assistant", "content": "In Lyon."}]
    row = {"messages": [SYSTEM, *first, *LAST]}
    rest = {"messages": [SYSTEM, *LAST]}
    limit = len(chat.tokenize([chat.render(rest["messages"])])[0][0])
    rows = read_tokens([write_rows([row])], chat, Reading(Policy(), limit, "oldest"), lambda _done: None)
    text = chat.tokenizer.decode(rows.row(0)[0])
    assert "tool_call" not in text
    assert "in Lyon" not in text
    assert (rows.trimmed, rows.turns_removed) == (1, 1)


@pytest.mark.requirement("R099")
def test_oldest_refuses_and_names_a_row_that_never_fits_and_oldest_or_drop_leaves_it_out(read):
    with pytest.raises(JobFailure) as info:
        read([SHORT, NEVER])
    assert info.value.code == "row_too_long"
    assert info.value.reason.startswith(
        "1 row longer than maxSeqLength 60 even with all turns but the last removed: line 2 ("
    )
    with pytest.raises(JobFailure) as whole:
        read([NEVER], truncation="error")
    assert info.value.evidence["rows"][0]["tokens"] < whole.value.evidence["rows"][0]["tokens"]
    rows = read([SHORT, NEVER], truncation="oldest_or_drop")
    assert (len(rows), rows.too_long, rows.trimmed) == (1, 1, 0)


@pytest.mark.requirement("R096")
def test_leaving_out_every_row_is_refused(read):
    with pytest.raises(JobFailure, match=r"which data\.truncation oldest_or_drop leaves out"):
        read([NEVER], truncation="oldest_or_drop")


@pytest.mark.requirement("R102")
@pytest.mark.parametrize("truncation", ["oldest", "oldest_or_drop"])
def test_a_long_row_that_carries_a_mask_is_refused(read, truncation):
    full = read([LONG], limit=1000)
    mask = (full.row(0)[1] != IGNORED).astype(int).tolist()
    with pytest.raises(JobFailure, match="carries a mask in weights, which covers the whole conversation"):
        read([{**LONG, "weights": mask}, SHORT], truncation=truncation, column="weights")
    assert read([{**LONG, "weights": None}, SHORT], truncation=truncation, column="weights").trimmed == 1


@pytest.mark.requirement("R094", "R103")
def test_right_cuts_from_the_end_and_refuses_a_row_whose_cut_token_is_trained(read):
    ids, _ = read([LONG], limit=1000).row(0)
    early = [0, 1, *[0] * (len(ids) - 2)]
    rows = read([{**LONG, "weights": early}], truncation="right", column="weights")
    assert rows.row(0)[0].tolist() == ids[:60].tolist()
    assert (rows.trimmed, rows.turns_removed, rows.trained_tokens()) == (1, 0, 1)
    late = [0, 1, *[0] * (len(ids) - 3), 1]
    with pytest.raises(JobFailure, match="1 trained one lies past maxSeqLength 60") as info:
        read([{**LONG, "weights": late}], truncation="right", column="weights")
    assert info.value.reason.startswith("1 row cannot be trained on. line 1: the row has")


@pytest.mark.requirement("R094", "R136")
def test_right_refuses_a_long_row_without_a_mask_because_its_answer_would_be_cut(read):
    mask = [0] * (len(read([SHORT]).row(0)[0]) - 1)
    with pytest.raises(JobFailure, match=r"line 2: the row has \d+ tokens, and \d+ trained ones lie past"):
        read([{**SHORT, "weights": [*mask, 1]}, LONG], truncation="right", column="weights")


@pytest.mark.requirement("R337", "R338")
@pytest.mark.parametrize("truncation", ["error", "drop", "right", "oldest", "oldest_or_drop"])
def test_a_row_whose_calls_the_template_leaves_out_is_refused_under_every_value_even_a_long_one(read, truncation):
    asking = {"role": "assistant", "content": "looking", "tool_calls": [call(parcel="late " * 90)]}
    with pytest.raises(JobFailure, match=r"line 2: the chat template leaves out a call of messages\[1\], the answer"):
        read([SHORT, {"messages": [*say("where"), asking]}], truncation=truncation)


@pytest.mark.requirement("R337")
def test_a_template_without_a_system_role_refuses_the_row_with_its_reason_f30(write_rows):
    gemma2 = tiny.make_tokenizer(
        template="{% if messages[0].role == 'system' %}{{ raise_exception('System role not supported') }}{% endif %}"
        "{% for m in messages %}{{ m.content }}{% endfor %}"
    )
    with pytest.raises(JobFailure, match=r"line 1: the chat template refuses .*System role not supported"):
        read_tokens([write_rows([SHORT])], ChatTemplate(gemma2), Reading(Policy(), 60, "drop"), lambda _done: None)


@pytest.mark.requirement("R337")
@pytest.mark.parametrize(
    ("family", "messages", "reason"),
    [
        ("gemma3", [*say("a", "b", "c"), *say("d", "e")], "line 1: the chat template refuses .*roles must alternate"),
        ("qwen3", [SYSTEM, SYSTEM, *LAST], r"line 1: messages\[1\]\.role: A system message is the first"),
        ("qwen3", [*LAST, SYSTEM, *LAST], r"line 1: messages\[2\]\.role: A system message is the first"),
    ],
)
def test_f29_turns_that_a_model_does_not_know_are_named_before_anything_is_loaded(write_rows, family, messages, reason):
    with pytest.raises(JobFailure, match=reason):
        read_tokens(
            [write_rows([{"messages": messages}])], stock(family), Reading(Policy(), 60, "error"), lambda _done: None
        )


@pytest.fixture
def read_run(tmp_path, base_model, tokenizer, write_rows):
    """The rows a whole plan would train on, its training and validation datasets given as rows."""

    def read_run(rows, validation=None, **changes):
        plan = tiny.sft_plan(base_model, [write_rows(rows)], **{"config.maxSeqLength": 60, **changes})
        if validation:
            plan["validation"] = {"files": [str(write_rows(validation, "validation.jsonl"))]}
        job = Job(jobs.prepare(tmp_path / f"attempt-{len(list(tmp_path.iterdir()))}", plan))
        rows = read_run_rows(job, ChatTemplate(tokenizer))
        return rows, sequences_of(rows.training, job.plan["config"])

    return read_run


@pytest.mark.requirement("R100")
def test_f08_f10_what_a_long_row_is_hangs_neither_on_packing_nor_on_the_dataset(read_run):
    rows = [SHORT, LONG, NEVER, SHORT]
    for packing in (False, True):
        changes = {"config.data.truncation": "oldest_or_drop", "config.data.packing": packing}
        (training, validation), sequences = read_run(rows, rows, **changes)
        assert (len(training), training.too_long, training.trimmed) == (3, 1, 1)
        assert (training.ids == validation.ids).all()
        assert (training.labels == validation.labels).all()
        assert sorted(row for sequence in sequences for row in sequence) == [0, 1, 2]
        assert (len(sequences) < 3) is packing
    fit = data_fit(training)
    assert (fit["trimmed"], fit["turnsRemoved"]) == (1, training.turns_removed) and training.turns_removed > 0


@pytest.mark.requirement("R095", "R096")
def test_drop_leaves_long_rows_out_of_each_dataset_and_empties_neither(read_run):
    drop = {"config.data.truncation": "drop"}
    (training, validation), _ = read_run([SHORT, LONG, NEVER], [SHORT, LONG], **drop)
    assert (len(training), len(validation)) == (1, 1)
    assert (data_fit(training)["tooLong"], data_fit(validation)["tooLong"]) == (2, 1)
    with pytest.raises(JobFailure, match="No row of the validation dataset is left"):
        read_run([SHORT], [LONG], **drop)


@pytest.mark.requirement("R138")
@pytest.mark.parametrize("missing", ["training", "validation"])
def test_a_dataset_of_a_run_with_a_mask_column_holds_at_least_one_mask(read_run, tokenizer, missing):
    length = len(ChatTemplate(tokenizer).tokenize([tiny_text(tokenizer)])[0][0])
    masked, bare = [{**SHORT, "weights": [0] * (length - 1) + [1]}, SHORT], [{**SHORT, "weights": None}, SHORT]
    sets = {"rows": masked, "validation": masked, ("rows" if missing == "training" else "validation"): bare}
    with pytest.raises(JobFailure, match=f"No row of the {missing} dataset carries a mask in weights"):
        read_run(**sets, **{"config.loss.explicitLossMaskColumn": "weights"})


def tiny_text(tokenizer):
    return ChatTemplate(tokenizer).render(SHORT["messages"])


LLAMA = {"base_model.rules": ["system_needs_user_with_tools"], "config.maxSeqLength": 4000}
OFFERING = {**SHORT, "tools": [{"type": "function", "function": {"name": "track", "parameters": {}}}]}


@pytest.mark.requirement("R331")
@pytest.mark.parametrize(
    ("rows", "validation", "changes", "why"),
    [
        ([OFFERING, LONG], None, {}, "line 2 of the training dataset has several turns"),
        ([OFFERING], [LONG], {}, "line 1 of the validation dataset has several turns"),
        ([OFFERING], None, {"config.loss.assistantTurns": "all"}, "the run states a loss policy"),
        ([OFFERING], None, {"config.loss.trainOnToolCalls": False}, "the run states a loss policy"),
        (
            [OFFERING, NEVER],
            None,
            {"config.data.truncation": "oldest_or_drop", "config.maxSeqLength": 60},
            "line 2 of the training dataset",
        ),
    ],
)
def test_llama_refuses_a_system_message_beside_tools_where_each_message_is_rendered_alone(
    read_run, rows, validation, changes, why
):
    with pytest.raises(JobFailure) as info:
        read_run(rows, validation, **{**LLAMA, **changes})
    assert info.value.code == "bad_row"
    assert why in info.value.reason
    assert info.value.evidence["rows"][0]["line"] == "line 1 of the training dataset"


@pytest.mark.requirement("R331")
def test_llama_trains_such_rows_whole_and_other_models_train_them_always(read_run):
    (training, _), _ = read_run([OFFERING, SHORT], **LLAMA)
    assert len(training) == 2
    (training, _), _ = read_run([OFFERING, LONG], **{**LLAMA, "base_model.rules": []})
    assert len(training) == 2


@pytest.mark.parametrize("truncation", ["error", "oldest"])
def test_of_a_great_many_long_rows_only_those_that_are_named_are_held(truncation):
    long = LongRows(8, truncation)
    lengths = [100 + (row * 7919) % 1000 for row in range(3000)]
    for row, tokens in enumerate(lengths):
        long.add(tokens, f"line {row + 1}")
    held = [value for value in vars(long).values() if isinstance(value, list)]
    assert len(long) == 3000 and sum(map(len, held)) == NAMED_ROWS
    with pytest.raises(JobFailure) as refused:
        long.refuse()
    expected = sorted(range(3000), key=lambda row: (-lengths[row], row))[:NAMED_ROWS]
    assert [row["line"] for row in refused.value.evidence["rows"]] == [f"line {row + 1}" for row in expected]
    assert "2980 more" in refused.value.reason and refused.value.evidence["count"] == 3000
