"""Scores answers to word problems whose last line reads `#### NUMBER`, as in GSM8K.

`compute_score` is the reward proper. `follows_form` rewards the form alone: beside it as a second term it gives a model
something to learn from before its first right answer.
"""

from . import answers


def compute_score(solution_str, ground_truth):
    """1 where the answer's number is the expected one, a tenth where it is another in the right form, else 0."""
    wanted = answers.stated(ground_truth)
    if wanted is None:
        raise ValueError("the expected answer does not end in a line #### NUMBER")
    found = answers.stated(solution_str)
    if found is None:
        return {"score": 0.0, "form": False, "right": False, "reason": "It states no number after ####."}
    if found == wanted:
        return {"score": 1.0, "form": True, "right": True, "reason": ""}
    return {"score": 0.1, "form": True, "right": False, "reason": f"It says {found}, not {wanted}."}


def follows_form(solution_str):
    """1 where exactly one line states a number and it is the last, else 0."""
    return float(answers.count(solution_str) == 1 and answers.is_last(solution_str))
