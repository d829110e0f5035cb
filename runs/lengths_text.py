"""Row lengths as lines for people: a dry run's Lengths section, and what a run was checked against. Pure."""

from collections.abc import Iterator, Mapping
from typing import Any

from runs.lengths import SHOWN, counted

Row = tuple[str, Any]


def lengths_rows(lengths: Mapping[str, Any] | None) -> list[Row]:
    """The Lengths section; empty for a run whose rows are prompts."""
    if lengths is None:
        return []
    parts = [row for name in ("training", "validation") if lengths[name]
             for row in _part(name.capitalize(), lengths["maxSeqLength"], lengths[name])]
    return [("maxSeqLength", lengths["maxSeqLength"]), *parts]


def _part(label: str, limit: int, found: Mapping[str, Any]) -> Iterator[Row]:
    if found["status"] == "recorded":
        yield label, f"{counted(found['rows'])}, longest {found['longest']:,} tokens. {found['note']}"
        if found["over"] is not None:
            yield "", over_words(limit, found)
        return
    if found["status"] != "done":
        yield label, found["note"]
        if found.get("command"):
            yield "", f"Measure them with `{found['command']}`."
        return
    yield label, (f"{counted(found['rows'], found['unit'])}: median {found['median']:,}, p90 {found['p90']:,}, "
                  f"p99 {found['p99']:,}, longest {found['longest']:,} tokens")
    yield "", over_words(limit, found)
    if found["templateProblemRows"]:
        yield "", f"{counted(found['templateProblemRows'], found['unit'])} that the chat template does not render whole"
    yield "", f"suggested maxSeqLength {found['suggestedMaxSeqLength']:,}"
    yield "", origin_words(found)


def over_words(limit: int, found: Mapping[str, Any]) -> str:
    """`3 rows longer than 512: 2 are trimmed, 1 cannot fit even trimmed`."""
    words = f"{counted(found['over'], found['unit']) if found['over'] else 'none'} longer than {limit:,}"
    if found["over"] and "trimmed" in found:
        words += f": {found['trimmed']} trimmed, {found['cannotFit']} that cannot fit even trimmed"
    return words


def origin_words(found: Mapping[str, Any]) -> str:
    """Which analysis measured, under which tokenizer, template and version."""
    tokenizer, digest = found["tokenizer"], found["chatTemplateSha256"] or ""
    return (f"analysis {found['analysisId'][:SHOWN]}: tokenizer {tokenizer['repository']} at "
            f"{tokenizer['revision'][:SHOWN]}, {found['templateOrigin']} chat template {digest[:SHOWN]}, Optimize "
            f"{found['productVersion']}")


def check_words(check: Mapping[str, Any] | None) -> str | None:
    """`training against the analysis 0123…; validation against …`, or why the check did not run."""
    if not check:
        return None
    if check["status"] == "waiting":
        return f"waiting for the rows to be measured. {check['note']}".strip()
    against = "; ".join(f"{name} against {_against(check[name])}" for name in ("training", "validation")
                        if check[name] and (check[name]["analysisId"] or check[name]["status"] == "recorded"))
    if check["status"] == "not_run":
        return f"not run: {check['note']} The job refuses a row that does not fit when it reads it." + (
            f" Looked at: {against}." if against else "")
    return against


def _against(part: Mapping[str, Any]) -> str:
    if part["status"] == "recorded":
        return "the lengths that were counted when it was registered"
    return f"the analysis {part['analysisId'][:SHOWN]} ({part['baseModel']} at {part['baseModelRevision'][:SHOWN]})"
