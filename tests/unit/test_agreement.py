"""How far a grader agrees with people."""

import pytest

from evaluations.agreement import agreement, agreement_document


def pairs(both_right=0, both_wrong=0, only_people=0, only_grader=0):
    return [(1.0, 0.9)] * both_right + [(0.0, 0.2)] * both_wrong + [(1.0, 0.1)] * only_people + \
        [(0.0, 0.7)] * only_grader


def test_kappa_is_the_agreement_beyond_chance():
    found = agreement(pairs(both_right=20, both_wrong=15, only_people=5, only_grader=10))
    assert (found.compared, found.both_right, found.both_wrong, found.only_people, found.only_grader) == (
        50, 20, 15, 5, 10)
    assert found.share == pytest.approx(0.7)
    assert found.kappa == pytest.approx(0.4)  # chance is 0.5: people call half right, the grader 0.6


def test_full_agreement_is_one_and_full_disagreement_below_zero():
    assert agreement(pairs(both_right=3, both_wrong=3)).kappa == 1
    assert agreement(pairs(only_people=3, only_grader=3)).kappa == -1
    assert str(agreement(pairs(both_wrong=4, only_grader=8)).kappa) == "0.0"


def test_nothing_can_be_told_where_both_always_say_the_same_or_nothing_was_compared():
    same = agreement(pairs(both_right=9))
    assert (same.share, same.kappa) == (1.0, None)
    none = agreement([(1.0, None)])
    assert (none.compared, none.unscored, none.share, none.kappa, none.mean_difference) == (0, 1, None, None, None)


def test_scores_in_between_count_as_right_from_a_half_and_their_difference_is_kept():
    found = agreement([(0.5, 0.4), (0.25, 0.5)])
    assert (found.only_people, found.only_grader) == (1, 1)
    assert found.mean_difference == pytest.approx(0.075)
    assert agreement_document(found)["counts"]["rightToPeopleOnly"] == 1
