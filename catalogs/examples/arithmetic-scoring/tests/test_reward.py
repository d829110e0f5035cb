"""Tests of the bundle, without a box: `python -m unittest discover -s tests -t .` in the folder above."""

import unittest

from scoring import reward

RIGHT = "Natalia sold 48 / 2 = 24 clips in May.\nAltogether 48 + 24 = 72.\n#### 72"


class Reward(unittest.TestCase):
    def test_the_right_number_scores_all(self):
        for said in ("#### 72", "#### 72.0", "#### $72", "so it is\n####72 "):
            self.assertEqual(reward.compute_score(said, RIGHT)["score"], 1.0, said)

    def test_thousands_and_signs_do_not_change_a_number(self):
        self.assertEqual(reward.compute_score("#### 1,234.50 €", "#### 1234.5")["score"], 1.0)
        self.assertEqual(reward.compute_score("#### 5", "#### -5")["score"], 0.1)

    def test_another_number_in_the_right_form_scores_a_tenth(self):
        self.assertEqual(reward.compute_score("#### 71", RIGHT)["score"], 0.1)

    def test_no_number_scores_nothing(self):
        for said in ("", "72", "#### ", "#### seventy-two", "the answer #### 72"):
            self.assertEqual(reward.compute_score(said, RIGHT)["score"], 0.0, said)

    def test_the_last_line_counts(self):
        self.assertEqual(reward.compute_score("#### 72\n#### 9", RIGHT)["score"], 0.1)

    def test_an_expected_answer_without_a_number_is_nobody_s_fault(self):
        with self.assertRaises(ValueError):
            reward.compute_score("#### 72", "seventy-two")

    def test_the_form_alone(self):
        self.assertEqual(reward.follows_form("It is two.\n#### 2\n"), 1.0)
        for said in ("2", "#### 2\nThat is it.", "#### 1\n#### 2"):
            self.assertEqual(reward.follows_form(said), 0.0, said)


if __name__ == "__main__":
    unittest.main()
