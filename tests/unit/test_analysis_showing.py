"""Analyses as a command lists them."""

from datasets.analyses import showing


class Tabling:
    """A command that keeps the table it is told to show."""

    def table(self, head, rows, right):
        self.rows = rows


def listed(status, progress, *, is_cancelling=False):
    """What the list says of how an analysis stands."""
    command = Tabling()
    row = {"analysisId": "a" * 64, "baseModel": "acme/tiny", "baseModelRevision": "rev-1", "status": status,
           "rows": None, "maxTokens": None, "attempt": 1, "startedAt": None, "isCancelling": is_cancelling,
           "progress": {"stage": None, "done": None, "total": None, "unit": None, "waitReason": None} | progress}
    showing.listed(command, {"analyses": [row]})
    return command.rows[0][2]


def test_the_list_says_how_far_each_analysis_is_and_what_it_waits_for():
    measuring = {"stage": "measuring", "done": 400, "total": 1000, "unit": "rows"}
    assert listed("running", measuring) == "Running: measuring 400 of 1,000 rows"
    assert listed("pending", {"waitReason": "It waits for its turn."}) == "Pending. It waits for its turn."
    assert listed("running", measuring, is_cancelling=True) == "Being cancelled"
    assert listed("done", {}) == "Done"
