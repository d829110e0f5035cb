"""What the judges of a reward hold, and whether they and the run have room."""

import pytest

from runs.judge_memory import Room, certain_of, judges_document, predict_judge, read_tokens
from runs.judges_at import without_room
from runs.memory import LIBRARIES, Shape
from runs.text import judges_words

SHAPE = Shape(layers=2, hidden=64, intermediate=128, query=64, key=32, vocabulary=1000, is_tied=True)
GIB = 1024**3


def judge(model="judges/tone:v1", *, kind="cpu", answers=40, **stated):
    return predict_judge(model, kind=kind, answers=answers, **(
        {"parameters": 10_000_000, "shape": SHAPE, "adapter": 5000, "tokens": 100} | stated))


def test_a_judge_holds_its_weights_its_adapter_and_the_keys_and_values_of_what_it_reads_at_once():
    assert judge().parts == {"weights": 40_000_000, "adapter": 5000, "cache": 16 * (100 * 2 * 2 * 32 * 4 + 1000 * 24),
                             "libraries": LIBRARIES}
    assert judge(kind="cuda", answers=4).parts == {
        "weights": 20_000_000, "adapter": 5000, "cache": 4 * (100 * 2 * 2 * 32 * 2 + 1000 * 24)}
    assert judge(shape=None).total is None and judge(parameters=None).total is None


@pytest.mark.parametrize(("context", "tokens"), [(None, 512 + 100 + 96 + 192), (4096, 900), (600, 600)])
def test_it_reads_a_row_its_instructions_and_says_its_verdict_and_never_beyond_its_context(context, tokens):
    assert read_tokens(longest=512, instructions="x" * 400, answer=192, context=context) == tokens


def test_judges_count_with_a_run_that_shares_their_memory_and_beside_one_that_does_not():
    both = [judge(), judge("acme/tiny:v1", adapter=0)]
    shared = judges_document(both, Room("cpu", "cpu", 24 * GIB, is_shared=True), GIB)
    assert shared["bytes"] == both[0].total + both[1].total
    assert shared["together"] == shared["bytes"] + GIB and shared["memory"] == 24 * GIB
    words = judges_words({"judges": shared})
    assert words.startswith("judges/tone:v1 500.1 MiB (weights 38.1 MiB + adapter 4.9 KiB + cache 1.1 MiB + libraries")
    assert words.endswith("on cpu, which the run shares, together 2.0 GiB of 24.0 GiB")
    apart = judges_document(both, Room("h100", "cuda", 80 * GIB, is_shared=False), GIB)
    assert apart["together"] is None and judges_words({"judges": apart}).endswith("on h100")
    assert judges_document(both, Room("cpu", "cpu", 0, is_shared=True), None)["together"] is None
    assert judges_words({"bytes": 1}) is None


@pytest.mark.parametrize(("kind", "have", "is_shared", "said"), [
    ("cpu", 2 * GIB, True, ""), ("cpu", GIB, True, "would take 499.0 MiB beside the 600.0 MiB of the run"),
    ("cpu", GIB, False, ""), ("cpu", GIB // 4, False, "and this machine has 256.0 MiB"),
    ("cuda", GIB, False, ""), ("cuda", 1 << 20, False, "takes 19.1 MiB before it reads anything, and a device h100"),
    ("cpu", 0, True, "")])
def test_what_is_held_for_certain_must_fit_and_what_passes_hold_at_most_refuses_nothing(kind, have, is_shared, said):
    own = {"weights": 500 << 20, "optimizer": 100 << 20, "activations": 900 * GIB, "generation": None}
    found = without_room([judge(kind=kind, tokens=10**9)], Room("h100" if kind == "cuda" else "cpu", kind, have,
                                                             is_shared), own)
    assert said in found and bool(said) == bool(found)
    assert certain_of(own) == 600 << 20
