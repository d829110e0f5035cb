"""Rows to train on that ask what a row to judge by asks."""

import json

import pytest

from datasets.leakage import LISTED, NEAR, Judged, Overlap

LONG = ("my parcel was sent to the old address although I changed it in the app last week and now the shop says "
        "that nobody can call the driver back")


def row(asked, answer="yes", system=None):
    first = [{"role": "system", "content": system}] if system else []
    return {"messages": [*first, {"role": "user", "content": asked}, {"role": "assistant", "content": answer}]}


def compare(training, judged):
    known = Judged()
    for position, found in enumerate(judged):
        known.add(position, found)
    overlap = Overlap(known)
    for position, found in enumerate(training):
        overlap.add(position, found)
    return overlap


def pairs(matches):
    return [(found["position"], found["evaluationPosition"]) for found in matches.first]


def test_the_same_question_is_found_whatever_its_case_and_spacing_and_answer():
    overlap = compare([row("Where is  my PARCEL?", "no"), row("Caf\u0065\u0301 open?"), row("Something else entirely")],
                      [row("unrelated"), row("where is my parcel?"), row("caf\u00e9 open?")])
    assert pairs(overlap.exact) == [(0, 1), (1, 2)]
    assert overlap.near.rows == 0


def test_a_question_with_a_word_changed_is_near_and_another_is_not():
    overlap = compare([row(LONG.replace("driver", "courier")), row(LONG[::-1]), row("my parcel")],
                      [row("nothing"), row(LONG)])
    assert overlap.exact.rows == 0
    assert pairs(overlap.near) == [(0, 1)]
    assert NEAR <= overlap.near.first[0]["similarity"] < 1


def test_a_system_message_that_all_share_brings_nothing_near():
    system = "Sort the ticket into one of five queues and answer with an object of queue and priority only."
    overlap = compare([row("my card is lost", system=system)], [row("the bus was late", system=system)])
    assert (overlap.exact.rows, overlap.near.rows) == (0, 0)
    other = compare([row(LONG, system="Be brief.")], [row(LONG, system=system)])
    assert other.near.first[0]["similarity"] == 1.0


def test_pairs_are_compared_by_their_prompt():
    pair = {"prompt": [{"role": "user", "content": LONG}], "chosen": {"role": "assistant", "content": "a"},
            "rejected": {"role": "assistant", "content": "b"}}
    assert compare([pair], [row(LONG)]).exact.rows == 1


def test_many_matches_are_counted_and_the_first_listed():
    overlap = compare([row(LONG)] * (LISTED + 5), [row(LONG), row(LONG)])
    assert (overlap.exact.rows, len(overlap.exact.first)) == (LISTED + 5, LISTED)
    assert overlap.exact.document()["evaluationRows"] == 1


@pytest.mark.parametrize("cut", [0, 3, 7])
def test_a_comparison_goes_on_from_where_it_stopped(cut):
    training = [row(LONG.replace("app", f"app {number}")) if number % 3 else row(f"Where is {number}?")
                for number in range(8)]
    judged = Judged()
    for position, found in enumerate([row(LONG), row("where is 3?"), row("where is 6?")]):
        judged.add(position, found)
    whole, first, second = Overlap(judged), Overlap(judged), Overlap(judged)
    for position, found in enumerate(training):
        whole.add(position, found)
        (first if position < cut else second).add(position, found) if position < cut else None
    second.restore(json.loads(json.dumps(first.state())))
    for position, found in enumerate(training[cut:], cut):
        second.add(position, found)
    assert second.state() == whole.state()


def test_rows_without_a_word_match_nothing_nearly():
    assert compare([row("")], [row("   ")]).near.rows == 0
    assert compare([row("", system="Be brief.")], [row("", system="Be kind."), row("a")]).near.rows == 0


ASKED = "请问我上周在你们商店订的那个包裹现在到底在什么地方可以告诉我吗"
THAI = "ฉันเปลี่ยนที่อยู่ในแอปเมื่อสัปดาห์ที่แล้วแต่พัสดุถูกส่งไปที่เก่าแล้ว"


@pytest.mark.parametrize(("trained", "judged"), [
    ("where is my parcel now", "where is my parcel today"), ("where is my parcel?", "Where is my parcel"),
    ("where is my parcel please", "where is my parcel"), ("how do I reset my password", "how can I reset my password!"),
    ("I want to cancel the order that I made yesterday evening", "I want to cancel the order I made yesterday evening"),
    ("please tell me where the parcel is that was sent to me on the first of may",
     "please tell me where the letter is that was sent to me on the first of may"),
    ("我的包裹在哪里?", "我的包裹在哪里呢"), ("请问我的包裹现在到底在什么地方", "请问我的包裹今天到底在什么地方"),
    (ASKED, ASKED.replace("商店", "网店")), (ASKED + "。", ASKED), (THAI, THAI.replace("แอป", "เว็บ")),
    ("荷物はどこにありますか、教えてください", "荷物はどこにありますか教えてください")])
def test_short_prompts_and_writing_without_spaces_are_near_with_little_changed(trained, judged):
    for first, second in ((trained, judged), (judged, trained)):
        overlap = compare([row(first)], [row("nothing like it"), row(second)])
        assert (overlap.exact.rows, pairs(overlap.near)) == (0, [(0, 1)])


@pytest.mark.parametrize(("trained", "judged"), [
    ("where is my parcel", "where is my refund"), ("my card is lost", "my card is late"), ("yes", "yes please"),
    ("cancel my order", "cancel my subscription"), ("我的包裹在哪里", "我的退款在哪里"), ("hi", "hey"), ("?", "!"),
    (ASKED, ASKED[::-1]), (THAI, THAI[::-1])])
def test_short_prompts_that_ask_something_else_are_not_near(trained, judged):
    overlap = compare([row(trained)], [row(judged)])
    assert (overlap.exact.rows, overlap.near.rows) == (0, 0)


def test_a_prompt_of_signs_alone_is_still_a_prompt():
    assert compare([row("??? !!!")], [row("??? !!!")]).exact.rows == 1
    assert compare([row("??? !!!")], [row("???  !!")]).near.rows == 1
