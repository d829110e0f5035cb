"""What a record says beside its texts and would train otherwise without it: marks, images, calls."""

import json

import pytest

from datasets.errors import ImportRefused
from tests.importing import CHAT_ROW, HELPER, OTHER, USER, imported


@pytest.mark.parametrize("mark", [{"weight": 0}, {"train": False}, {"training": False}, {"loss": False}])
@pytest.mark.parametrize("kind", ["openai-chat", "sharegpt", "prompt-completion"])
def test_answers_that_are_not_to_be_trained_are_never_trained_in_silence(tmp_path, kind, mark):
    def record(first, last):
        said = [USER, HELPER | first, USER, OTHER | last]
        return json.dumps({"openai-chat": {"messages": said}, "prompt-completion": {"prompt": said[:-1],
                                                                                    "completion": said[-1:]},
                           "sharegpt": {"conversations": said}}[kind])
    rows, report = imported(tmp_path, record(mark, dict.fromkeys(mark, 1) if "weight" in mark else {}))
    assert rows == [{"messages": [USER, HELPER, USER, OTHER]}]
    assert report.kind == kind and report.changed["untrained_messages"].count == 1
    with pytest.raises(ImportRefused) as refused:
        imported(tmp_path, record({}, mark))
    (problem,) = refused.value.problems
    assert problem.code == "answer_untrained" and next(iter(mark)) in problem.path


def test_marks_that_say_nothing_are_refused_or_kept_and_a_pair_heeds_none(tmp_path):
    with pytest.raises(ImportRefused) as refused:
        imported(tmp_path, json.dumps({"messages": [USER, HELPER | {"weight": 0.5}]}))
    assert refused.value.problems[0].code == "mark_unclear"
    rows, report = imported(tmp_path, json.dumps({"messages": [USER, HELPER | {"loss": 0.5, "train": None}]}))
    assert rows == [{"messages": [USER, HELPER | {"loss": 0.5}]}] and not report.dropped
    _, report = imported(tmp_path, json.dumps({"prompt": [USER, HELPER | {"weight": 0}, USER], "chosen": [HELPER],
                                               "rejected": [OTHER]}))
    assert not report.changed and set(report.dropped) == {"messages.weight"}


SHOWN = [{"type": "image", "path": "a.png"}, {"type": "text", "text": "\nwhat?"}]


@pytest.mark.parametrize("record", [
    {"conversations": [{"from": "human", "value": "<image>\nwhat?"}, {"from": "gpt", "value": "b"}],
     "images": ["a.png"]},
    {"conversations": [{"from": "human", "value": "<image>\nwhat?"}, {"from": "gpt", "value": "b"}], "image": "a.png"},
    {"messages": [{"role": "user", "content": [{"type": "image"}, SHOWN[1]]}, HELPER],
     "images": [{"path": "a.png", "bytes": None}]},
    {"prompt": [{"role": "user", "content": "<image>\nwhat?"}], "completion": [HELPER], "images": ["a.png"]},
    {"instruction": "<image>\nwhat?", "output": "b", "images": ["a.png"]}])
def test_images_beside_the_texts_come_to_stand_where_the_texts_place_them(tmp_path, record):
    rows, report = imported(tmp_path, json.dumps(record))
    assert rows == [{"messages": [{"role": "user", "content": SHOWN}, HELPER]}]
    assert report.changed["images_placed"].count == 1 and not report.dropped


@pytest.mark.parametrize(("more", "code"), [
    ({"images": ["a.png", "b.png"]}, "images_misplaced"), ({"images": [{"path": None, "bytes": "x"}]},
                                                           "image_embedded"),
    ({"images": ["../a.png"]}, "image_path_invalid"), ({"videos": ["a.mp4"]}, "media_unknown")])
def test_images_and_other_media_that_find_no_place_are_refused(tmp_path, more, code):
    record = {"conversations": [{"from": "human", "value": "<image> ?"}, {"from": "gpt", "value": "b"}]}
    with pytest.raises(ImportRefused) as refused:
        imported(tmp_path, json.dumps(record | more))
    assert refused.value.problems[0].code == code


def test_media_are_left_out_of_a_table_or_a_pair_only_where_the_columns_are_named(tmp_path):
    for record in ({"question": "a", "answer": "b", "image": "a.png"},
                   {"prompt": "a", "chosen": "b", "rejected": "c", "images": ["a.png"]}):
        with pytest.raises(ImportRefused) as refused:
            imported(tmp_path, json.dumps(record))
        assert refused.value.problems[0].code == "media_left_out"
    rows, report = imported(tmp_path, json.dumps({"question": "a", "answer": "b", "image": "a.png"}),
                            mapping={"user": "question", "assistant": "answer"})
    assert rows == [CHAT_ROW] and set(report.dropped) == {"image"}


CALLED_TWICE = [{"name": "f", "arguments": {"x": 1}}, {"name": "g", "parameters": {"y": 2}}]


def shared(*turns):
    return {"conversations": [{"from": from_, "value": value if isinstance(value, str) else json.dumps(value)}
                              for from_, value in (("human", "a"), *turns, ("gpt", "b"))]}


@pytest.mark.parametrize(("turns", "changed"), [
    ([("function_call", CALLED_TWICE), ("observation", "1"), ("observation", "2")], set()),
    ([("function_call", CALLED_TWICE), ("observation", [1, "2"])], {"results_split"}),
    ([("function_call", CALLED_TWICE[0]), ("function_call", CALLED_TWICE[1]), ("observation", "1"),
      ("observation", "2")], {"parallel_calls"})])
def test_calls_made_at_once_are_calls_of_one_message_each_with_its_result(tmp_path, turns, changed):
    rows, report = imported(tmp_path, json.dumps(shared(*turns)))
    calls = [{"id": id_, "type": "function", "function": {"name": name, "arguments": arguments}}
             for id_, name, arguments in (("call_1", "f", {"x": 1}), ("call_1_1", "g", {"y": 2}))]
    assert rows == [{"messages": [USER, {"role": "assistant", "content": "", "tool_calls": calls},
                                  {"role": "tool", "tool_call_id": "call_1", "content": "1"},
                                  {"role": "tool", "tool_call_id": "call_1_1", "content": "2"}, HELPER]}]
    assert set(report.changed) == changed | {"roles", "tool_ids"}


@pytest.mark.parametrize("results", [[("observation", [1, 2, 3])], [("observation", "{}")], [("observation", "1")] * 3])
def test_results_of_another_number_than_the_calls_are_refused(tmp_path, results):
    with pytest.raises(ImportRefused) as refused:
        imported(tmp_path, json.dumps(shared(("function_call", CALLED_TWICE), *results)))
    assert refused.value.problems[0].code == "results_differ"


def test_what_a_turn_holds_beside_its_text_is_reported(tmp_path):
    _, report = imported(tmp_path, json.dumps({"conversations": [{"from": "human", "value": "a", "rating": 3},
                                                                 {"from": "gpt", "value": "b"}]}))
    assert set(report.dropped) == {"conversations.rating"}
