"""The order of rows: one permutation an epoch, from the run's one seed."""

import numpy as np
import pytest
from optimize_child.training.order import Updates, epoch_order, pack, total_updates


def epoch_of(updates: Updates, epoch: int) -> list[list[int]]:
    updates.epoch = epoch
    return list(updates)


@pytest.mark.requirement("R084", "R088")
def test_each_epoch_has_its_own_order_and_the_seed_decides_all_of_them():
    first, second = (epoch_order(50, seed=42, epoch=epoch, shuffle=True).tolist() for epoch in (0, 1))
    assert first != second
    assert sorted(first) == sorted(second) == list(range(50))
    assert first == epoch_order(50, seed=42, epoch=0, shuffle=True).tolist()
    assert first != epoch_order(50, seed=43, epoch=0, shuffle=True).tolist()


@pytest.mark.requirement("R088")
def test_without_shuffling_every_epoch_reads_the_file_in_order():
    assert epoch_of(Updates(4, per_update=2, seed=1, shuffle=False), 3) == [[0, 1], [2, 3]]


def test_f18_the_last_update_of_an_epoch_holds_what_is_left():
    updates = Updates(6, per_update=4, seed=1, shuffle=True)
    assert [len(update) for update in epoch_of(updates, 0)] == [4, 2]
    assert len(updates) == 2


@pytest.mark.requirement("R075", "R076")
def test_a_cap_on_updates_ends_a_run_early_and_never_prolongs_it():
    assert total_updates(10, epochs=3, max_steps=None) == 30
    assert total_updates(10, epochs=3, max_steps=4) == 4
    assert total_updates(10, epochs=3, max_steps=99) == 30


@pytest.mark.requirement("R087")
def test_packing_fills_sequences_without_splitting_a_row():
    lengths = np.array([60, 50, 40, 30, 20, 10])
    groups = pack(lengths, 100)
    assert sorted(row for group in groups for row in group) == list(range(6))
    assert all(lengths[group].sum() <= 100 for group in groups)
    assert len(groups) == 3
    assert groups == pack(lengths, 100)
