"""Whether a run's rows fit it, judged by what analyses measured: what is checked, what is refused, in which words.
Pure.

A refusal reads as the job's own does when it comes upon the row; the sentence after it names who measured.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from optimize_site.kernel.errors import Problem

Status = Literal["done", "no_analysis", "pending", "running", "failed", "cancelled", "unreadable", "no_commit",
                 "recorded", "not_measured"]
NAMED_ROWS = 20
SHOWN = 12
PATHS = {"training": "config.dataset", "validation": "config.data.validationDataset"}
LONG = {"error": "longer than maxSeqLength {limit}",
        "oldest": "longer than maxSeqLength {limit} even with all turns but the last removed"}
INSTEAD = {"error": "drop", "oldest": "oldest_or_drop"}
CORRECT = "Correct or remove these rows and register the dataset again."


@dataclass(frozen=True)
class Need:
    """What a run wants to know of its rows before it claims a device."""

    truncation: str
    waits: bool
    """Whether it waits for an analysis, or only uses one that is done."""

    @property
    def by_length(self) -> bool:
        """Whether a row may be refused for its length."""
        return self.truncation in LONG

    @property
    def by_trimmed(self) -> bool:
        """Whether a row counts at the shortest length it reaches with its oldest turns removed."""
        return self.truncation == "oldest"


def need_of(method: str, config: Mapping[str, Any], execution: Mapping[str, Any]) -> Need | None:
    """What a run of this method needs; None for one whose rows are prompts.

    Lengths are always waited for. Where no row is refused for its length, the analysis only tells which rows the
    chat template does not render, and a supervised run on several devices does not wait for that.
    """
    if method not in {"sft", "dpo"}:
        return None
    truncation = str(config["data"]["truncation"])
    return Need(truncation, waits=truncation in LONG or method == "dpo" or execution["gpus"] == 1)


@dataclass(frozen=True)
class Measured:
    """What is known of the rows of one dataset under the run's base model.

    `long` names rows that the run would refuse, the longest first, `num_long` is how many there are; `bad` and
    `num_bad` are those that the chat template does not render whole.
    """

    part: str
    reference: str
    status: Status
    unit: str = "rows"
    note: str = ""
    command: str | None = None
    analysis_id: str = ""
    base_model: str = ""
    revision: str = ""
    report: Mapping[str, Any] = field(default_factory=dict)
    rows: int | None = None
    over: int | None = None
    over_trimmed: int | None = None
    longest: int | None = None
    long: tuple[tuple[str, int], ...] = ()
    num_long: int = 0
    bad: tuple[tuple[str, str], ...] = ()
    num_bad: int = 0

    @property
    def is_settled(self) -> bool:
        """Whether waiting longer tells no more."""
        return self.status not in {"no_analysis", "pending", "running", "no_commit"}


# Refusals ------------------------------------------------------------------------------------------------------------


def refusals(need: Need, limit: int, found: Iterable[Measured]) -> list[Problem]:
    """Everything that the measurements refuse, each under the field that names the dataset."""
    return [problem for measured in found for problem in _refusals_of(need, limit, measured)]


def _refusals_of(need: Need, limit: int, measured: Measured) -> Iterable[Problem]:
    path = PATHS[measured.part]
    if measured.num_bad:
        yield Problem(path, "bad_row", f"{bad_words(measured.bad, measured.num_bad, measured.unit)}"
                      f"{_by_whom(measured)}", CORRECT)
    if measured.num_long:
        yield Problem(path, "row_too_long", long_words(need.truncation, limit, measured.long, measured.num_long,
                                                       measured.unit) + _by_whom(measured), long_hint(need.truncation))
    if need.truncation in {"drop", "oldest_or_drop"} and measured.rows and left_out(need.truncation,
                                                                                   measured) == measured.rows:
        yield Problem(path, "nothing_to_train", f"{empty_words(measured, limit, need.truncation)}"
                      f"{_by_whom(measured)}", "Raise config.maxSeqLength or shorten the rows.")


def left_out(truncation: str, measured: Measured) -> int:
    """How many rows a run would leave out as too long."""
    if truncation == "drop":
        return measured.over or 0
    return (measured.over_trimmed or 0) if truncation == "oldest_or_drop" else 0


def long_words(truncation: str, limit: int, rows: Iterable[tuple[str, int]], number: int, unit: str = "rows") -> str:
    """`2 rows longer than maxSeqLength 512: line 7 (900 tokens), line 3 (600 tokens)`."""
    named = ", ".join(f"{place} ({tokens} tokens)" for place, tokens in list(rows)[:NAMED_ROWS])
    return f"{counted(number, unit)} {LONG[truncation].format(limit=limit)}: {named}{_more(number)}"


def long_hint(truncation: str) -> str:
    """What to do about rows that are too long."""
    return (f"Raise config.maxSeqLength, shorten the rows, or set data.truncation to {INSTEAD[truncation]} to leave "
            "them out.")


def bad_words(rows: Iterable[tuple[str, str]], number: int, unit: str = "rows") -> str:
    """`1 row cannot be trained on. line 7: why`."""
    named = "; ".join(f"{place}: {reason}" for place, reason in list(rows)[:NAMED_ROWS])
    return f"{counted(number, unit)} cannot be trained on. {named}{_more(number)}"


def empty_words(measured: Measured, limit: int, truncation: str) -> str:
    """That nothing is left of a dataset."""
    return (f"No row of the {measured.part} dataset is left: {counted(left_out(truncation, measured), measured.unit)} "
            f"longer than maxSeqLength {limit}, which data.truncation {truncation} leaves out")


def counted(number: int, unit: str = "rows") -> str:
    """`1 row`, `7 pairs`."""
    return f"1 {unit.removesuffix('s')}" if number == 1 else f"{number} {unit}"


def _more(number: int) -> str:
    return f" and {number - NAMED_ROWS} more" if number > NAMED_ROWS else ""


def _by_whom(measured: Measured) -> str:
    if measured.status == "recorded":
        return f". Counted when {measured.reference} was registered."
    return (f". Measured by the analysis {measured.analysis_id[:SHOWN]} under {measured.base_model} at "
            f"{measured.revision[:SHOWN]}.")


# Documents -----------------------------------------------------------------------------------------------------------


def lengths_document(limit: int, need: Need, found: Iterable[Measured]) -> dict[str, Any]:
    """The dry run's `resolved.lengths`."""
    parts: dict[str, Any] = {"training": None, "validation": None}
    parts |= {measured.part: measured_document(need, measured) for measured in found}
    return {"maxSeqLength": limit, "truncation": need.truncation, **parts}


def measured_document(need: Need, measured: Measured) -> dict[str, Any]:
    """One dataset's lengths against the limit, and where the figures come from."""
    document: dict[str, Any] = {"dataset": measured.reference, "status": measured.status, "unit": measured.unit,
                                "note": measured.note}
    if measured.command:
        document["command"] = measured.command
    if measured.analysis_id:
        document |= {"analysisId": measured.analysis_id, "baseModel": measured.base_model,
                     "baseModelRevision": measured.revision}
    if measured.status == "recorded":
        return document | {"rows": measured.rows, "longest": measured.longest, "over": measured.over}
    return document | (_figures(need, measured) if measured.status == "done" else {})


def _figures(need: Need, measured: Measured) -> dict[str, Any]:
    report, lengths = measured.report, measured.report.get("lengths") or {}
    origin = {key: report.get(key) for key in ("tokenizer", "chatTemplateSha256", "templateOrigin", "productVersion")}
    figures = {"rows": measured.rows, **{key: lengths.get(key) for key in ("median", "p90", "p99", "longest")},
               "over": measured.over, "suggestedMaxSeqLength": report.get("suggestedMaxSeqLength"),
               "templateProblemRows": measured.num_bad}
    if need.truncation in {"oldest", "oldest_or_drop"}:
        over, unfit = measured.over or 0, measured.over_trimmed or 0
        figures |= {"trimmed": over - unfit, "cannotFit": unfit}
    return origin | figures


def check_document(status: str, found: Iterable[Measured], *, note: str = "", since: str = "") -> dict[str, Any]:
    """A run's `lengthCheck`: `waiting`, `checked` or `not_run`, and the analysis that each dataset was checked
    against."""
    parts = {measured.part: {"dataset": measured.reference, "status": measured.status, "note": measured.note,
                             "analysisId": measured.analysis_id or None,
                             "baseModel": measured.base_model or None, "baseModelRevision": measured.revision or None,
                             "rows": measured.rows, "longest": measured.longest, "over": measured.over}
             for measured in found}
    return {"status": status, "note": note, "since": since or None,
            "training": parts.get("training"), "validation": parts.get("validation")}
