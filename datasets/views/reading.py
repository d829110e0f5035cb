"""The rows of a dataset on its page: readable in every format, by position or by their words."""

from typing import Any

from datasets.analyses.queries import list_analyses, status_of
from datasets.formats.prepared import FORMAT as PREPARED
from datasets.models import ExampleSet
from datasets.row_documents import id_pieces, messages_of
from datasets.row_pages import MAX_SEARCH_CHARACTERS, read_page
from datasets.row_tokens import add_tokens
from optimize_site.kernel.htmx import HtmxRequest
from optimize_site.kernel.listing import whole
from registry.models import Version

ROWS, CHARACTERS = 10, 6_000
IMAGES = "/v1/registry/images"


def rows_tab(request: HtmxRequest, version: Version, examples: ExampleSet) -> dict[str, Any]:
    """The page of rows that the address asks for."""
    search = request.GET.get("q", "").strip()[:MAX_SEARCH_CHARACTERS]
    offset = whole(request.GET.get("offset"), most=max(0, examples.num_examples - 1))
    models = analysed_models(examples)
    model = chosen_model(request, models)
    found = read_page(version, offset=offset, limit=ROWS, search=search, room=CHARACTERS)
    source = add_tokens(version, examples, found["rows"], model)
    _link_images(examples, found["rows"])
    for row in found["rows"]:
        row["more_repeats"] = row["repeats"]["count"] - len(row["repeats"]["positions"]) if "repeats" in row else 0
        row["turns"] = row.get("messages") or row.get("prompt") or []
        if "ids" in row:
            row["pieces"] = id_pieces(row)
    _note_repeated_instructions(found["rows"])
    # A search that found nothing within its time goes on by itself; one that found something waits to be asked.
    goes_on = bool(search) and not found["rows"] and found["nextOffset"] is not None
    return {"found": found, "search": search, "models": models, "model": model, "source": source, "goes_on": goes_on,
            "share": (found["nextOffset"] or 0) / max(1, found["total"]), "is_first": offset == 0,
            "can_search": examples.format != PREPARED,
            "previous": max(0, offset - ROWS), "last": examples.num_examples - 1,
            "is_compared": found["repeats"]["compared"] >= found["total"],
            "raw": f"/v1/registry/datasets/{version.artifact.reference}/versions/v{version.number}/rows"}


def analysed_models(examples: ExampleSet) -> list[str]:
    """The base models that the rows are measured under, the last measured first."""
    done = (analysis for analysis in list_analyses(examples.pk) if status_of(analysis) == "done")
    return list(dict.fromkeys(analysis.repository for analysis in done))


def chosen_model(request: HtmxRequest, models: list[str]) -> str:
    """The model that the address asks for, else the last one measured under; empty where there is none."""
    asked = request.GET.get("model", "")
    return asked if asked in models else next(iter(models), "")


def _link_images(examples: ExampleSet, rows: list[dict[str, Any]]) -> None:
    """Take the images out of each message's content and give them to it as `images`, `{"path", "url"}`."""
    if not examples.num_images:
        return
    known = {image["path"]: image["sha256"] for image in examples.details.get("images") or []}
    for row in rows:
        for message in messages_of(row):
            content = message.get("content")
            parts = content if isinstance(content, list) else []
            shown = [part for part in parts if part.get("type") == "image" and part.get("path") in known]
            message["images"] = [{"path": part["path"], "url": f"{IMAGES}/{known[part['path']]}"} for part in shown]
            message["content"] = [part for part in parts if part not in shown] if shown else content


def _note_repeated_instructions(rows: list[dict[str, Any]]) -> None:
    """Mark a system message that the row above has too, so that the page can fold it."""
    above: Any = None
    for row in rows:
        first = next(messages_of(row), {})
        own = first.get("content") if first.get("role") == "system" else None
        if own is not None and own == above:
            first["is_repeated"] = True
        above = own
