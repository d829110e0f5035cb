"""What can go wrong with runs."""

from optimize_site.kernel.errors import Conflict, DescriptorRefused, InvalidInput, NotFound, Refused


class RunRefused(DescriptorRefused):
    code, noun = "run_refused", "run"


class SubmissionConflict(Conflict):
    code = "submission_conflict"


class RunEnded(Conflict):
    code = "run_ended"


class TooLateToCancel(Conflict):
    code = "too_late_to_cancel"


class TooLateToPause(Conflict):
    code = "too_late_to_pause"


class PauseInProgress(Conflict):
    """Another pause was asked for before this one."""

    code = "pause_in_progress"


class RunAlreadyPaused(InvalidInput):
    """A paused run is paused again: 400 with its phase, as the interface promises."""

    code = "run_already_paused"


class RunNotPaused(Conflict):
    code = "run_not_paused"


class CheckpointUnknown(InvalidInput):
    code = "checkpoint_unknown"


class NothingToResume(Refused):
    """A pause that would lose everything the run has trained."""

    code = "nothing_to_resume"


class NoTrainingState(Refused):
    """A run of which no save holds a training state, so that nothing can go on with its training."""

    code = "no_training_state"


class KindMissing(Conflict):
    """A snapshot does not hold, or no longer holds, what was asked of it."""

    code = "snapshot_kind_missing"


class KindUnknown(InvalidInput):
    code = "snapshot_kind_unknown"


class SmokeSnapshot(Refused):
    """A save of a smoke check, of which nothing is made."""

    code = "smoke_snapshot"


class HoldStands(Conflict):
    """Whoever holds the snapshot still needs it."""

    code = "snapshot_hold_stands"


class RunsNotComparable(Refused):
    """Runs whose losses say nothing about each other."""

    code = "runs_not_comparable"


class PlansDiffer(RunsNotComparable):
    """They do not follow one recipe, and nobody said that this is meant."""

    code = "plans_differ"


class RunNotWaiting(Conflict):
    code = "run_not_waiting"


class NotWritten(NotFound):
    """The job has not written this yet."""

    code = "not_written"


class SnapshotDamaged(Refused):
    code = "snapshot_invalid"
