"""Every event a job may write, as types, and the one function that reads a line of its log."""

from typing import Any, Literal

import msgspec

VERSION = 1


class Event(msgspec.Struct, frozen=True, tag_field="type", kw_only=True):
    """What all events carry: the format's version and when the job wrote it (unix seconds)."""

    v: int
    t: float

    @property
    def type(self) -> str:
        """The name the event has in the log."""
        return str(self.__struct_config__.tag)

    def document(self) -> dict[str, Any]:
        """The event as it stands in the log, with the fields it left out filled with their defaults."""
        body: dict[str, Any] = msgspec.to_builtins(self)
        return body


class Started(Event, tag="started", frozen=True, kw_only=True):
    """The job's process is alive; `prepared` where it was forked from the prepared process."""

    pid: int
    versions: dict[str, str]
    prepared: bool = False


class Stage(Event, tag="stage", frozen=True, kw_only=True):
    """What the job is doing before, between and after its steps."""

    name: str
    done: int | None = None
    peak_memory_bytes: int | None = None
    total: int | None = None
    unit: str | None = None


class Progress(Event, tag="progress", frozen=True, kw_only=True):
    """How far the present stage is."""

    done: int
    total: int | None = None
    unit: str | None = None


class Hparams(Event, tag="hparams", frozen=True, kw_only=True):
    """The hyperparameters as the trainer was given them, and their digest."""

    values: dict[str, Any]
    sha: str


class EngineConfig(Event, tag="engine_config", frozen=True, kw_only=True):
    """What was asked of the engine and what it runs with, the compute path included."""

    requested: dict[str, Any]
    resolved: dict[str, Any]


class EngineRuntime(Event, tag="engine_runtime", frozen=True, kw_only=True):
    """What the job really runs with, a part at a time; readings of memory join the earlier ones."""

    trainer: dict[str, Any] | None = None
    model: dict[str, Any] | None = None
    rolloutEngine: list[dict[str, Any]] | None = None
    memory: list[dict[str, Any]] | None = None


class DataFit(Event, tag="data_fit", frozen=True, kw_only=True):
    """How the rows fit the run: counts of rows, of those left out or trimmed, of tokens, and the longest row."""

    rows: int
    tooLong: int
    trainedTokens: int
    totalTokens: int
    paddingShare: float
    longest: int
    trimmed: int = 0
    turnsRemoved: int = 0
    masked: int = 0
    validation: dict[str, Any] | None = None


class PlanSize(Event, tag="plan_size", frozen=True, kw_only=True):
    """How many updates the run makes, known once the rows are."""

    totalSteps: int
    rowsPerEpoch: int
    updatesPerEpoch: int | None = None
    sequences: int | None = None


class Check(Event, tag="check", frozen=True, kw_only=True):
    """A check the job ran on itself, with the measured value beside its bound."""

    name: str
    passed: bool
    value: float | None = None
    bound: float | None = None
    seconds: float | None = None
    detail: str | None = None


class Metrics(Event, tag="metrics", frozen=True, kw_only=True):
    """The figures of one update."""

    step: int
    values: dict[str, float | None]


class Rollouts(Event, tag="rollouts", frozen=True, kw_only=True):
    """The scored completions of one update are written: JSON lines in a file, relative to the attempt's folder."""

    step: int
    file: str
    count: int


class Validation(Event, tag="validation", frozen=True, kw_only=True):
    """One reading of the validation dataset."""

    step: int
    loss: float | None
    perplexity: float | None
    tokens: int | None = None
    seconds: float | None = None


class Snapshot(Event, tag="snapshot", frozen=True, kw_only=True):
    """A snapshot is complete; its folder is relative to the attempt's."""

    step: int
    folder: str
    weights: bool
    trainingState: bool
    manifestSha256: str
    bytes: int
    final: bool
    stateManifestSha256: str | None = None
    epoch: float | None = None


class Saves(Event, tag="saves", frozen=True, kw_only=True):
    """How many saves wait to be written, and how many were skipped because newer ones came."""

    waiting: int
    skipped: int


class Answer(Event, tag="answer", frozen=True, kw_only=True):
    """The model's answer to one row; `answer` is null where the row could not be asked, and `finish` says why."""

    position: int
    system: str
    prompt: list[dict[str, Any]]
    expected: str | None
    answer: str | None
    prompt_tokens: int
    completion_tokens: int
    chat_template_sha256: str
    base_model_revision: str
    finish: str
    tools: list[dict[str, Any]] | None = None


class Scored(Event, tag="scored", frozen=True, kw_only=True):
    """What a grader says of one row's answer; `score` is null where it gave none, and `cause` says why."""

    position: int
    score: float | None
    is_exact: bool | None
    fields: dict[str, bool]
    explanation: str
    cause: str


class Missed(Event, tag="missed", frozen=True, kw_only=True):
    """A row that a smoke check's model did not reproduce."""

    position: int
    prompt: list[dict[str, Any]]
    expected: str
    answer: str
    finish: str


class Smoke(Event, tag="smoke", frozen=True, kw_only=True):
    """A smoke check's verdict: how many rows of its slice were scored and reproduced, whether it was memorised."""

    verdict: Literal["passed", "failed", "ungraded", "not_memorised_in_steps"]
    score: float | None
    threshold: float
    rows: int
    scored: int
    reproduced: int
    toolAnswers: int
    memorised: bool
    step: int


class Warned(Event, tag="warning", frozen=True, kw_only=True):
    """Something a person should know that stops nothing."""

    code: str
    message: str


class Failure(Event, tag="failure", frozen=True, kw_only=True):
    """Why the job failed: a stable code, a sentence, what to change."""

    code: str
    reason: str
    hint: str
    evidence: dict[str, Any]


class Stopped(Event, tag="stopped", frozen=True, kw_only=True):
    """The job left because it was asked to, or because nobody watched it."""

    reason: Literal["stop", "pause", "drop", "unwatched"]
    step: int | None = None


class Finished(Event, tag="finished", frozen=True, kw_only=True):
    """The job did all of its plan; each entry fills the fields it has."""

    step: int | None = None
    adapter: str | None = None
    totals: dict[str, Any] | None = None
    answers: int | None = None
    folder: str | None = None
    revision: str | None = None
    parameters: int | None = None
    context_length: int | None = None
    vocab_size: int | None = None
    chat_template_sha256: str | None = None
    chat_template_correction: dict[str, Any] | None = None
    special_tokens: dict[str, str | None] | None = None
    files: list[dict[str, Any]] | None = None
    architecture: str | None = None
    model_type: str | None = None
    bytes: int | None = None
    report: dict[str, Any] | None = None
    preview: dict[str, Any] | None = None


EVENT_TYPES: tuple[type[Event], ...] = (
    Started,
    Stage,
    Progress,
    Hparams,
    EngineConfig,
    EngineRuntime,
    DataFit,
    PlanSize,
    Check,
    Metrics,
    Rollouts,
    Validation,
    Snapshot,
    Saves,
    Answer,
    Scored,
    Missed,
    Smoke,
    Warned,
    Failure,
    Stopped,
    Finished,
)
AnyEvent = (
    Started
    | Stage
    | Progress
    | Hparams
    | EngineConfig
    | EngineRuntime
    | DataFit
    | PlanSize
    | Check
    | Metrics
    | Rollouts
    | Validation
    | Snapshot
    | Saves
    | Answer
    | Scored
    | Missed
    | Smoke
    | Warned
    | Failure
    | Stopped
    | Finished
)
_decoder = msgspec.json.Decoder(AnyEvent)


def parse_event(line: bytes) -> Event | None:
    """The event on a line of events.jsonl; None where the line is not one of this version, and belongs in the log."""
    try:
        event: Event = _decoder.decode(line)
    except (msgspec.DecodeError, msgspec.ValidationError):
        return None
    return event if event.v == VERSION else None


def schema() -> dict[str, Any]:
    """The table that both sides of the seam are tested against: each event's required and optional fields."""
    return {"version": VERSION, "events": {_tag(kind): _fields(kind) for kind in EVENT_TYPES}}


def _tag(kind: type[Event]) -> str:
    return str(kind.__struct_config__.tag)


def _fields(kind: type[Event]) -> dict[str, list[str]]:
    fields = [field for field in msgspec.structs.fields(kind) if field.name not in ("v", "t")]
    return {
        "required": sorted(field.name for field in fields if field.required),
        "optional": sorted(field.name for field in fields if not field.required),
    }
