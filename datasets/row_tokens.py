"""Shown rows in tokens: their counts as analysed under a base model; prepared rows as text again."""

from pathlib import Path
from typing import Any

from datasets.analyses.queries import find_analysis, lengths_of, status_of
from datasets.formats.prepared import FORMAT as PREPARED
from datasets.models import ExampleSet
from datasets.token_text import text_pieces
from registry.base_model_queries import BaseModelState, find_base_model, get_base_model
from registry.models import Version

TOKENIZER_FILE = "tokenizer.json"


def add_tokens(version: Version, examples: ExampleSet, documents: list[dict[str, Any]], model: str) -> dict[str, Any]:
    """Add to each row its `tokens` under the model, or to prepared rows their `text`; gives where they come from.

    `{"model", "revision", "status", "note"}`; `status` is "done" where there are counts, else `note` says why not, with
    the command that would make them. Raises NotFound for a model that the box does not know.
    """
    if examples.format == PREPARED:
        return _add_text(examples, documents)
    if not model:
        return {"model": "", "revision": "", "status": "", "note": ""}
    return _add_counts(version, examples, documents, get_base_model(model))


def _add_counts(version: Version, examples: ExampleSet, documents: list[dict[str, Any]],
                state: BaseModelState) -> dict[str, Any]:
    analysis = find_analysis(examples.pk, state)
    status = status_of(analysis) if analysis is not None else "none"
    source = {"model": state.repository, "revision": state.revision, "status": status, "note": ""}
    if analysis is None or status != "done":
        command = f"./optimize datasets analyze {version.reference} --model {state.repository}"
        return source | {"note": f"{version.reference} is not analysed under {state.repository} (analysis: {status}). "
                                 f"`{command}` counts its tokens."}
    lengths = lengths_of(analysis)
    for document in documents:
        found = lengths.at(document["position"])
        document["tokens"] = {"length": found[0], "trimmed": found[1], "trained": found[2], "trainedAll": found[3]}
    return source


def _add_text(examples: ExampleSet, documents: list[dict[str, Any]]) -> dict[str, Any]:
    stated = examples.details.get("tokenizer") or {}
    repository, revision = stated.get("repository", ""), stated.get("revision", "")
    source = {"model": repository, "revision": revision, "status": "none"}
    file = _tokenizer_file(repository, revision)
    if file is None:
        return source | {"note": f"Shown as token ids: {repository} at {revision[:12]} is not prepared on this box."}
    for document in documents:
        pieces = text_pieces(file, document["ids"], _mask(document))
        if pieces is None:
            return source | {"note": f"Shown as token ids: how {repository} writes its vocabulary is not known here."}
        document["text"] = pieces
    return source | {"status": "done", "note": ""}


def _tokenizer_file(repository: str, revision: str) -> Path | None:
    state = find_base_model(repository) if repository else None
    if state is None or state.folder is None or state.revision != revision:
        return None
    file = state.folder / TOKENIZER_FILE
    return file if file.exists() else None


def _mask(document: dict[str, Any]) -> list[int]:
    mask = [0] * len(document["ids"])
    for start, end in document["trained"]:
        mask[start:end] = [1] * (end - start)
    return mask
