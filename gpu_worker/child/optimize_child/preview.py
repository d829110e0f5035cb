"""What a run would train on, before it is: the first rows of its training dataset as tokens, the trained ones marked.

Each row goes the way it goes in the run: the same template, the same truncation, the same mask, the same refusals. A
preference pair is its prompt with each of its answers; a row of a reinforcement run is the prompt that is rolled out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

from transformers.utils import logging as transformers_logging

from optimize_child.failures import JobFailure
from optimize_child.job import Job
from optimize_child.pairs.rows import rows_of_pairs
from optimize_child.pairs.tokens import read_pairs
from optimize_child.reading import image_rows, prepared_rows
from optimize_child.reading.lines import read_lines
from optimize_child.reading.row_fit import LongRows
from optimize_child.reading.run_rows import reading_of, watch_of
from optimize_child.reading.token_rows import IGNORED, TokenRows
from optimize_child.reading.tokens import Reading, tokens_of_lines
from optimize_child.reinforcement.prompts import Room, prompts_of_lines
from optimize_child.rendering.system_alone import SystemAlone
from optimize_child.rendering.template import ChatTemplate
from optimize_child.rendering.template_check import TemplateCheck
from optimize_child.rendering.token_text import pieces_of
from optimize_child.rendering.tokenizer import load_template, load_tokenizer
from optimize_child.training.order import pack

MOST_TOKENS = 65_536


class Read(NamedTuple):
    """One row of the dataset: its place, and its tokens or why it is not trained on. A pair has two rows of tokens."""

    place: str
    tokens: TokenRows | None
    failure: JobFailure | None

    @property
    def size(self) -> int:
        return int(self.tokens.lengths().sum()) if self.tokens else 0


def run(job: Job) -> None:
    """The entry `preview`: one event with all that is shown."""
    transformers_logging.set_verbosity_error()
    template = load_template(job.plan["base_model"], load_tokenizer(Path(job.plan["base_model"]["folder"])))
    job.stage("tokenising")
    job.events.emit("finished", preview=preview(job.plan, template), sync=True)


def preview(plan: dict[str, Any], template: ChatTemplate) -> dict[str, Any]:
    """The first `rows` rows of a plan's training dataset as its run would train them. Raises JobFailure for what
    refuses the dataset as a whole."""
    config = plan["config"]
    is_prompts = "rlHyperparams" in config
    watch = None if is_prompts else watch_of(plan)
    data = config.get("data") or {"truncation": "error", "packing": False}
    read = list(_as_many_as_fit(islice(_read_rows(plan, template, watch), plan["rows"])))
    return {
        "chatTemplateSha256": template.sha256,
        "maxSeqLength": config["maxSeqLength"],
        "maxCompletionLength": config["rlHyperparams"]["maxCompletionLength"] if is_prompts else None,
        "truncation": data["truncation"],
        "packing": data["packing"],
        "rows": [part for number, row in enumerate(read, start=1) for part in _documents(number, row, plan, template)],
        "isShortened": sum(row.size for row in read) > MOST_TOKENS,
        "problem": _problem(watch),
        "sequences": _sequences(read, config) if data["packing"] else None,
    }


def _as_many_as_fit(rows: Iterator[Read]) -> Iterator[Read]:
    """Rows until they hold more tokens than one answer should."""
    tokens = 0
    for row in rows:
        yield row
        tokens += row.size
        if tokens > MOST_TOKENS:
            return


def _problem(watch: SystemAlone | None) -> dict[str, str] | None:
    """What refuses the rows together, though each could be trained alone."""
    try:
        if watch:
            watch.refuse()
    except JobFailure as failure:
        return {"code": failure.code, "reason": failure.reason, "hint": failure.hint}
    return None


def _read_rows(plan: dict[str, Any], template: ChatTemplate, watch: SystemAlone | None) -> Iterator[Read]:
    dataset = plan["dataset"]
    files = [Path(file) for file in dataset["files"]]
    if dataset.get("format") == prepared_rows.FORMAT:
        prepared_rows.check_prepared(dataset, plan["base_model"], template.sha256)
        yield from _prepared(plan, template)
        return
    if "rlHyperparams" in plan["config"]:
        yield from _prompts(files, plan, template)
        return
    if plan["config"]["method"] == "dpo":
        yield from _pairs(files, plan, template)
        return
    reading = reading_of(plan, "training", watch)
    if dataset.get("images"):
        yield from _with_images(files, plan, reading, template)
        return
    for line in read_lines(files):
        yield _try(line.place, lambda line=line: tokens_of_lines(iter([line]), template, reading))


def _prompts(files: list[Path], plan: dict[str, Any], template: ChatTemplate) -> Iterator[Read]:
    length, completion = plan["config"]["maxSeqLength"], plan["config"]["rlHyperparams"]["maxCompletionLength"]
    for line in read_lines(files):
        yield _try(line.place, lambda line=line: prompts_of_lines([line], template, Room(length, completion)).rows)


def _pairs(files: list[Path], plan: dict[str, Any], template: ChatTemplate) -> Iterator[Read]:
    limit, truncation = plan["config"]["maxSeqLength"], plan["config"]["data"]["truncation"]
    check = TemplateCheck(template)
    for line in read_lines(files):
        yield _try(
            line.place,
            lambda line=line: rows_of_pairs(
                read_pairs([line], check), LongRows(limit, truncation), dataset="training"
            ),
        )


def _with_images(files: list[Path], plan: dict[str, Any], reading: Reading, template: ChatTemplate) -> Iterator[Read]:
    # Few datasets hold images, and every preview would wait for what is imported for them.
    from optimize_child.reading.images import ImageReader

    image_rows.require_plain_settings(plan["config"])
    reader = ImageReader(Path(plan["base_model"]["folder"]), template, plan["dataset"]["images"])
    for line in read_lines(files):
        yield _try(line.place, lambda line=line: image_rows.read_image_line(line, reader, reading))


def _prepared(plan: dict[str, Any], template: ChatTemplate) -> Iterator[Read]:
    limit, truncation = plan["config"]["maxSeqLength"], plan["config"]["data"]["truncation"]
    vocabulary = len(template.tokenizer)
    for row in prepared_rows.placed_rows(plan["dataset"]):
        yield _try(
            row.place,
            lambda row=row: prepared_rows.read_prepared([row], LongRows(limit, truncation), vocabulary=vocabulary),
        )


def _try(place: str, read: Callable[[], TokenRows]) -> Read:
    try:
        return Read(place, read(), None)
    except JobFailure as failure:
        return Read(place, None, failure)


def _documents(number: int, row: Read, plan: dict[str, Any], template: ChatTemplate) -> Iterator[dict[str, Any]]:
    """A row as it is shown: one document, or one for each answer of a pair."""
    if row.tokens is None:
        yield {"row": number, "place": row.place} | _left_out(row.failure)
    elif plan["config"]["method"] == "dpo":
        for index, answer in enumerate(("chosen", "rejected")):
            yield _document(number, row, index, template) | {"answer": answer}
    elif "rlHyperparams" in plan["config"]:
        yield _document(number, row, 0, template) | {"state": "prompt"}
    else:
        yield _document(number, row, 0, template)


def _document(number: int, row: Read, index: int, template: ChatTemplate) -> dict[str, Any]:
    assert row.tokens is not None  # noqa: S101 - the caller looked
    ids, labels = row.tokens.row(index)
    special = set(template.tokenizer.all_special_ids)
    return {
        "row": number,
        "place": row.place,
        "state": "trained",
        "tokens": len(ids),
        "trainedTokens": int((labels != IGNORED).sum()),
        "isCut": bool(row.tokens.trimmed and not row.tokens.turns_removed),
        "turnsRemoved": row.tokens.turns_removed,
        "ids": ids.tolist(),
        "pieces": pieces_of(template.tokenizer, ids.tolist()),
        "mask": [int(label != IGNORED) for label in labels],
        "special": [int(token in special) for token in ids.tolist()],
    }


def _left_out(failure: JobFailure | None) -> dict[str, Any]:
    """A row that the run leaves out, or for which it would be refused, and the run's own sentence."""
    assert failure is not None  # noqa: S101 - a row without tokens has one
    is_long = failure.code == "nothing_to_train" and "rows" not in failure.evidence
    state = "left_out" if is_long else "refused"
    reason = "It is longer than maxSeqLength, and data.truncation leaves such rows out." if is_long else failure.reason
    return {"state": state, "code": failure.code, "reason": reason, "hint": "" if is_long else failure.hint}


def _sequences(read: list[Read], config: dict[str, Any]) -> list[list[int]]:
    """The rows of each packed sequence, by number, where the rows shown are packed among themselves."""
    shown = [(number, row.tokens) for number, row in enumerate(read, start=1) if row.tokens is not None]
    lengths = [int(tokens.lengths()[0]) for _, tokens in shown]
    return [[shown[place][0] for place in sequence] for sequence in pack(lengths, config["maxSeqLength"])]
