"""Reads of analyses: finding the one of some examples under a base model, its measurements, how it stands."""

from collections.abc import Iterable
from pathlib import Path

from django.db.models import Exists, OuterRef, QuerySet

from datasets.analyses import phases
from datasets.analyses.row_lengths import NAME, RowLengths
from datasets.lines import read_lines
from datasets.models import Analysis, ExampleSet
from optimize_site.kernel.blobs import open_blob, read_chunks
from optimize_site.kernel.box import VERSION
from optimize_site.kernel.conf import home
from optimize_site.kernel.ids import find_by_prefix
from registry import phases as base_model_phases
from registry.base_model_queries import BaseModelState, base_model_state
from registry.models import BaseModel

KIND = "analysis"


def get_analysis(text: str) -> Analysis:
    """The analysis whose ID is, or begins with, `text`. Raises NotFound, AmbiguousPrefix."""
    return find_by_prefix(all_analyses(), text.strip().lower(), noun="analysis")


def all_analyses() -> QuerySet[Analysis]:
    """Every analysis with its examples."""
    return Analysis.objects.select_related("examples")


def list_analyses(content_hash: str = "") -> QuerySet[Analysis]:
    """Analyses, newest first: all, or those of one set of examples."""
    found = all_analyses().order_by("-created_at", "pk")
    return found.filter(examples=content_hash) if content_hash else found


def find_analysis(content_hash: str, state: BaseModelState) -> Analysis | None:
    """The analysis of some examples under a base model's present commit by this version, or None."""
    return all_analyses().filter(examples=content_hash, repository=state.repository, revision=state.revision,
                                 product_version=VERSION).first()


def with_base_model_ready() -> QuerySet[Analysis]:
    """Analyses that wait and whose base model lies prepared at their commit, first come first."""
    ready = BaseModel.objects.filter(repository=OuterRef("repository"), revision=OuterRef("revision"),
                                     phase=base_model_phases.READY)
    return all_analyses().filter(Exists(ready), phase=phases.PENDING).order_by("queued_at")


def folder_of(analysis: Analysis) -> Path:
    """Where the measurements of an analysis lie."""
    return home() / "analyses" / analysis.pk


def lengths_of(analysis: Analysis, rows: int | None = None) -> RowLengths:
    """The length of every row, or of the first `rows`. Raises OSError and ValueError where the file is no such."""
    return RowLengths(folder_of(analysis) / NAME, rows)


def status_of(analysis: Analysis) -> str:
    """How it stands: pending, running, done, failed, cancelled; unreadable where its measurements are gone."""
    status = phases.STATUS[analysis.phase]
    if status != "done":
        return status
    try:
        is_whole = lengths_of(analysis).rows == analysis.report["rows"]
    except (OSError, ValueError, KeyError):
        is_whole = False
    return status if is_whole else phases.UNREADABLE


def may_succeed(analysis: Analysis) -> bool:
    """Whether another attempt at an analysis that failed could end otherwise: not where it refused the data."""
    return analysis.failure_code not in phases.REFUSED_THE_DATA


def wait_reason(analysis: Analysis) -> str:
    """What a pending analysis waits for, as a sentence; empty for any other."""
    if analysis.phase != phases.PENDING:
        return ""
    state = base_model_state(analysis.repository)
    if state is not None and not state.is_ready:
        return f"{analysis.repository} is being prepared."
    ahead = with_base_model_ready().filter(queued_at__lt=analysis.queued_at).count()
    return "It waits for its turn." + (f" {ahead} wait in front of it." if ahead else "")


def places_of(examples: ExampleSet, positions: Iterable[int]) -> dict[int, str]:
    """Where rows stand, by their position: `line 7`, or `line 7 of examples-00001.jsonl` where there are several
    files. A line's number counts blank ones too, as a job counts."""
    wanted, first = sorted(set(positions)), 0
    places: dict[int, str] = {}
    for shard in examples.shards:
        here = [position - first for position in wanted if first <= position < first + shard["examples"]]
        name = f" of {shard['path']}" if len(examples.shards) > 1 else ""
        numbers = _line_numbers(shard["sha256"], here) if here and examples.num_blank_lines else {}
        places |= {first + row: f"line {numbers.get(row, row + 1)}{name}" for row in here}
        first += shard["examples"]
    return places


def _line_numbers(sha256: str, rows: list[int]) -> dict[int, int]:
    """The line of each row of a file that holds blank ones."""
    wanted, found, row = set(rows), {}, 0
    with open_blob(sha256) as file:
        for line in read_lines(read_chunks(file)):
            if line.is_blank:
                continue
            if row in wanted:
                found[row] = line.number
                if len(found) == len(wanted):
                    break
            row += 1
    return found
