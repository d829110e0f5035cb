"""What a run's data is refused for at submission: formats, images, tools, prepared rows, truncation, masks."""

import pytest

from tests.unit.resolving import make_dataset_facts, make_entry, make_facts, only_problem, problems, resolved

PREPARED = {"format": "prepared-tokens-v1", "tokenizer": "acme/tiny", "chat_template_sha256": "1" * 64}
COLUMN = {"explicitLossMaskColumn": "weights"}
DATASET = "config.data.validationDataset"


def facts_of(training=None, validation=None, **changes):
    held_out = make_dataset_facts("e" * 64, **validation) if validation is not None else None
    return make_facts(dataset=make_dataset_facts(**(training or {})), validation=held_out, **changes)


def vision(**changes):
    return {"entry": make_entry(modality="image-text", **changes)}


@pytest.mark.parametrize(("method", "format", "is_read"), [
    ("sft", "chat-jsonl-v1", True), ("sft", "prepared-tokens-v1", True), ("sft", "preference-jsonl-v1", False),
    ("sft", "eval-items-v1", False), ("dpo", "preference-jsonl-v1", True), ("dpo", "chat-jsonl-v1", False),
    ("grpo", "prepared-tokens-v1", False)])
def test_each_method_reads_its_own_formats_and_names_them(method, format, is_read):
    found = [problem for problem in resolved({"method": method}, facts=facts_of({"format": format})).problems
             if problem.path == "config.dataset"]
    assert (not found) is is_read
    if found:
        assert found[0].code == "wrong_format"
        assert format in found[0].message


def test_images_need_an_image_text_base_model():
    problem = only_problem(facts=facts_of({"num_images": 3}))
    assert problem.code == "images_not_read"
    assert "3 images" in problem.message
    assert problems(facts=facts_of({"num_images": 3}, **vision())) == {}


@pytest.mark.requirement("R318", "R319", "R320")
def test_tools_in_any_dataset_of_a_run_over_images_are_refused_where_they_were_counted():
    both = facts_of({"num_images": 3}, {"num_tool_rows": 2}, **vision())
    problem = only_problem(facts=both)
    assert (problem.path, problem.code) == ("config.data.validationDataset", "tools_with_images")
    assert "has 2 rows that offer tools, and under trl or verl a run over the images of triage/" in problem.message
    assert problems(facts=facts_of({"num_images": 3, "num_tool_rows": 1}, {}, **vision())) == {
        "config.dataset": "tools_with_images"}
    assert problems(facts=facts_of({"num_images": 3, "num_tool_rows": None}, {"num_tool_rows": 0}, **vision())) == {}
    assert problems(facts=facts_of({"num_tool_rows": 5})) == {}


@pytest.mark.requirement("R238", "R318")
@pytest.mark.parametrize("method", ["grpo", "gspo"])
def test_a_reinforcement_run_over_rows_that_offer_tools_is_refused_where_they_were_counted(method):
    def found(count):
        refused = resolved({"method": method}, facts=facts_of({"num_tool_rows": count})).problems
        return [problem for problem in refused if problem.code == "tools_not_rolled_out"]

    (problem,) = found(2)
    assert problem.path == "config.dataset"
    assert f"has 2 rows that offer tools, and a {method} run under trl or verl" in problem.message
    assert found(None) == found(0) == []


@pytest.mark.requirement("R325")
def test_prepared_rows_under_another_template_are_refused_naming_the_dataset_and_both_digests():
    problem = only_problem(facts=facts_of(PREPARED, base_template="2" * 64))
    assert (problem.path, problem.code) == ("config.dataset", "prepared_under_another_template")
    assert all(words in problem.message for words in ("triage/train:v1", "1" * 64, "2" * 64))
    assert "describe-prepared" in problem.hint
    assert problems(facts=facts_of(PREPARED, base_template="1" * 64)) == {}
    assert problems(facts=facts_of(PREPARED)) == {}
    held_out = PREPARED | {"chat_template_sha256": "2" * 64}
    assert problems(facts=facts_of(PREPARED, held_out, base_template="1" * 64)) == {
        "config.data.validationDataset": "prepared_under_another_template"}


@pytest.mark.requirement("R325")
def test_prepared_rows_of_another_tokenizer_are_refused_naming_both():
    problem = only_problem(facts=facts_of(PREPARED | {"tokenizer": "other/model"}))
    assert problem.code == "prepared_for_another_model"
    assert "other/model" in problem.message


@pytest.mark.parametrize("of", [facts_of, lambda held: facts_of(PREPARED, held, base_template="1" * 64)])
def test_prepared_rows_that_name_no_template_are_admitted_with_a_word(of):
    found = resolved(facts=of(PREPARED | {"chat_template_sha256": ""}))
    assert found.problems == ()
    assert "prepared_without_template" in [warning["code"] for warning in found.warnings]


@pytest.mark.requirement("R101", "R135", "R238", "R319", "R320")
@pytest.mark.parametrize(("held_out", "training", "changes", "path", "code"), [
    ({"format": "preference-jsonl-v1"}, {}, {}, DATASET, "wrong_format"),
    ({"num_images": 3}, {}, {}, DATASET, "images_not_read"),
    ({"num_images": 3}, {"num_tool_rows": 2}, {}, "config.dataset", "tools_with_images"),
    ({"num_images": 3}, {}, {"data": {"truncation": "oldest"}}, "config.data.truncation",
     "truncation_needs_text"),
    ({"num_images": 3}, {}, {"data": {"packing": True}}, "config.data.packing",
     "packing_needs_text"),
    ({"num_images": 3}, {}, {"loss": COLUMN}, "config.loss.explicitLossMaskColumn",
     "mask_needs_text"),
    ({"num_tool_rows": 2}, {}, {"method": "grpo"}, DATASET, "tools_not_rolled_out"),
    ({"num_call_answers": 2}, {}, {"method": "grpo"}, DATASET, "answer_calls_tools"),
])
def test_the_rows_held_out_are_judged_as_the_rows_to_train_on_are(held_out, training, changes, path, code):
    base = {} if code == "images_not_read" else vision()
    found = resolved(changes, facts=facts_of(training, held_out, **base)).problems
    assert (path, code) in [(problem.path, problem.code) for problem in found]


@pytest.mark.requirement("R093")
def test_cutting_from_the_end_needs_an_explicit_mask():
    problem = only_problem({"data": {"truncation": "right"}})
    assert (problem.path, problem.code) == ("config.data.truncation", "cuts_the_answer")
    assert problem.hint == ("Set data.truncation to error, or set loss.explicitLossMaskColumn and provide masks that "
                            "exclude every token past maxSeqLength.")
    assert problems({"data": {"truncation": "right"}, "loss": COLUMN}) == {}


@pytest.mark.requirement("R095", "R097")
@pytest.mark.parametrize("truncation", ["error", "drop", "oldest", "oldest_or_drop"])
def test_every_other_truncation_runs_over_text(truncation):
    assert problems({"data": {"truncation": truncation}}) == {}


@pytest.mark.requirement("R096", "R101")
@pytest.mark.parametrize("truncation", ["drop", "oldest", "oldest_or_drop"])
def test_a_smoke_check_leaves_out_and_trims_nothing(truncation):
    found = {problem.path: problem for problem in resolved({"data": {"truncation": truncation}}, smoke={}).problems}
    assert found["config.data.truncation"].code == "truncation_with_smoke"
    assert truncation in found["config.data.truncation"].message
    assert "config.data.truncation" not in problems({}, smoke={})


@pytest.mark.requirement("R101")
@pytest.mark.parametrize("truncation", ["oldest", "oldest_or_drop"])
def test_turns_are_removed_from_text_alone(truncation):
    data = {"data": {"truncation": truncation}}
    images = only_problem(data, facts=facts_of({"num_images": 3}, **vision()))
    assert (images.path, images.code) == ("config.data.truncation", "truncation_needs_text")
    assert "holds 3 images" in images.message
    assert "prepared token rows" in only_problem(data, facts=facts_of({}, PREPARED)).message
    assert problems({"data": {"truncation": "drop"}}, facts=facts_of(PREPARED)) == {}


@pytest.mark.requirement("R135")
def test_an_explicit_mask_is_read_from_text_chat_rows():
    assert problems({"loss": COLUMN}) == {}
    assert problems({"loss": COLUMN}, facts=facts_of({"num_images": 3}, **vision())) == {
        "config.loss.explicitLossMaskColumn": "mask_needs_text"}
    assert "with their own masks" in only_problem({"loss": COLUMN}, facts=facts_of({}, PREPARED)).message


@pytest.mark.requirement("R138")
def test_a_mask_column_that_no_row_has_is_refused_where_the_keys_of_the_rows_were_counted():
    held = {"columns": {"id": 9, "weights": 3}}
    assert problems({"loss": COLUMN}, facts=facts_of(held, held)) == {}
    problem = only_problem({"loss": COLUMN}, facts=facts_of(held, {"columns": {"id": 9, "weight": 9}}))
    assert (problem.path, problem.code) == ("config.loss.explicitLossMaskColumn", "no_row_has_a_mask")
    assert "is weights, and no row of triage/train:v1 carries a mask in it; its rows hold id, weight." in (
        problem.message)
    masks_of_none = only_problem({"loss": COLUMN}, facts=facts_of({"columns": {"weights": 0}}))
    assert masks_of_none.code == "no_row_has_a_mask"
    bare = only_problem({"loss": COLUMN}, facts=facts_of({"columns": {}}))
    assert "its rows hold messages and tools alone" in bare.message


def test_whether_rows_carry_masks_is_unknown_where_it_was_not_counted():
    def warned(columns, held_out):
        found = resolved({"loss": COLUMN}, facts=facts_of({"columns": columns}, {"columns": held_out})).warnings
        return "masks_not_counted" in [warning["code"] for warning in found]

    counted = {"weights": 1}
    assert warned(None, counted) and warned(counted, None) and not warned(counted, counted)


@pytest.mark.requirement("R135")
def test_a_mask_column_is_for_supervised_runs():
    found = resolved({"method": "dpo", "loss": COLUMN}, facts=facts_of({"format": "preference-jsonl-v1"})).problems
    assert ("config.loss.explicitLossMaskColumn", "does_not_apply") in [
        (problem.path, problem.code) for problem in found]


@pytest.mark.parametrize("key", ["messages", "tools"])
def test_what_every_row_holds_is_no_mask(key):
    problem = only_problem({"loss": {"explicitLossMaskColumn": key}})
    assert (problem.path, problem.code) == ("config.loss.explicitLossMaskColumn", "not_a_mask") and problem.hint


def test_rows_with_images_are_not_packed():
    problem = only_problem({"data": {"packing": True}}, facts=facts_of({}, {"num_images": 3}, **vision()))
    assert (problem.path, problem.code) == ("config.data.packing", "packing_needs_text")
    assert problems({"data": {"packing": True}}) == {}
