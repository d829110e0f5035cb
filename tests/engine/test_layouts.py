"""How rows lie in a pass, and that a model sees the same in each layout."""

import numpy as np
import pytest
import torch
from optimize_child.bases.models import load_model
from optimize_child.reading.token_rows import IGNORED, TokenRows
from optimize_child.training import segments
from optimize_child.training.layouts import Packed, Padded, Unpadded
from optimize_child.training.order import one_row_each
from optimize_child.training.segments import attention_of

HEAD = list(range(10, 40))


def rows_of(*rows: tuple[list[int], int]) -> TokenRows:
    """Rows given as tokens and how many of the last ones are trained."""
    ids = [np.array(tokens, dtype=np.int32) for tokens, _ in rows]
    labels = [
        np.where(np.arange(len(tokens)) >= len(tokens) - trained, np.array(tokens), IGNORED).astype(np.int32)
        for tokens, trained in rows
    ]
    starts = np.cumsum([0, *map(len, ids)])
    return TokenRows(np.concatenate(ids), np.concatenate(labels), starts, too_long=0, masked=0)


ROWS = rows_of(([*HEAD, 1, 2, 3, 4], 2), ([*HEAD, 5, 6], 1), ([*HEAD, 1, 2, 9, 9, 9, 9], 3), ([7, 8, 9], 1))


def test_padding_fills_on_the_right_and_is_never_trained_or_attended():
    (part,) = Padded(ROWS, micro=4, pad_token_id=0).passes(one_row_each(4))
    assert part["input_ids"].shape == (4, 36)
    assert part["attention_mask"].sum(1).tolist() == [34, 32, 36, 3]
    assert (part["labels"][part["attention_mask"] == 0] == IGNORED).all()


def test_the_shared_beginning_stands_once_and_rows_follow_with_their_own_positions():
    (part,) = Unpadded(ROWS, budget=10**6, share_prefix=True).passes([[0], [1], [2]])
    shape = part["segments"]
    assert shape.prefix == 30
    assert [end - start for start, end in shape.stretches] == [4, 2, 6]
    assert part["input_ids"].shape[1] == 30 + 4 + 2 + 6
    assert part["position_ids"][0, 30:36].tolist() == [30, 31, 32, 33, 30, 31]


def test_a_shared_beginning_never_holds_a_position_that_predicts_a_trained_token():
    rows = rows_of((HEAD, 3), (HEAD, 1))
    (part,) = Unpadded(rows, budget=10**6, share_prefix=True).passes([[0], [1]])
    assert part["segments"].prefix == 30 - 3 - 1
    trained = part["shift_labels"][part["shift_labels"] != IGNORED]
    assert trained.tolist() == [37, 38, 39, 39]


def test_a_short_common_beginning_is_not_worth_sharing():
    (part,) = Unpadded(ROWS, budget=10**6, share_prefix=True).passes([[0], [3]])
    assert part["segments"].prefix == 0


def test_a_pass_holds_no_more_tokens_than_its_budget_and_no_more_rows_than_allowed():
    passes = Unpadded(ROWS, budget=40, share_prefix=True).passes([[0], [1], [2]])
    assert [len(part["segments"].stretches) for part in passes] == [2, 1]
    passes = Unpadded(ROWS, budget=10**6, share_prefix=True, max_rows=1).passes([[0], [1], [2]])
    assert len(passes) == 3


def test_every_layout_trains_the_same_tokens():
    def trained(part):
        labels = part.get("labels", part.get("shift_labels"))
        return labels[labels != IGNORED].tolist()

    sequences = one_row_each(4)
    padded = [token for part in Padded(ROWS, 2, 0).passes(sequences) for token in trained(part)]
    packed = [token for part in Packed(ROWS, 2).passes(sequences) for token in trained(part)]
    unpadded = [token for part in Unpadded(ROWS, 999, True).passes(sequences) for token in trained(part)]
    assert padded == packed == unpadded


@pytest.mark.parametrize("share_prefix", [True, False])
def test_a_model_gives_each_row_the_logits_it_has_alone(base_model, share_prefix):
    model = load_model(base_model, device="cpu").eval()
    (part,) = Unpadded(ROWS, 10**6, share_prefix).passes([[0], [1], [2]])
    shape = part["segments"]
    with torch.no_grad():
        with attention_of(model, segments.NAME):
            together = model(part["input_ids"], position_ids=part["position_ids"], segments=shape).logits[0]
        for row, (start, end) in enumerate(shape.stretches):
            ids, _ = ROWS.row(row)
            alone = model(torch.from_numpy(ids.astype(np.int64))[None]).logits[0]
            assert torch.allclose(together[start:end], alone[shape.prefix :], atol=2e-5)
