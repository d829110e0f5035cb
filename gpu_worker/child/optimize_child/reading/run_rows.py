"""What a run trains on: its datasets as tokens, and the sequences they make."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from optimize_child.job import Job
from optimize_child.reading import image_rows, prepared_rows
from optimize_child.reading.row_fit import LongRows
from optimize_child.reading.token_rows import TokenRows
from optimize_child.reading.tokens import Reading, read_tokens
from optimize_child.rendering.explicit_masks import require_masks
from optimize_child.rendering.masks import policy_of
from optimize_child.rendering.system_alone import RULE, SystemAlone
from optimize_child.rendering.template import ChatTemplate
from optimize_child.training.order import one_row_each, pack

if TYPE_CHECKING:
    from optimize_child.reading.images import ImageReader


class RunRows(NamedTuple):
    """The rows of a run, every one of them good; validation rows are read as training rows are."""

    training: TokenRows
    validation: TokenRows | None


def read_run_rows(job: Job, template: ChatTemplate) -> RunRows:
    """Tokens and masks of every row of a plan's datasets. Raises JobFailure naming the rows that cannot be used."""
    reader = _RunReader(job, template)
    training = reader.read(job.plan["dataset"], "training")
    validation = reader.read(job.plan["validation"], "validation") if job.plan["validation"] else None
    if reader.watch:
        reader.watch.refuse()
    return RunRows(training, validation)


def watch_of(plan: dict[str, Any]) -> SystemAlone | None:
    """Who watches the rows of a model whose template does not render a system message alone with tools."""
    rules = plan["base_model"].get("rules") or []
    return SystemAlone(policy_of(plan["config"]["loss"])) if RULE in rules else None


def reading_of(plan: dict[str, Any], dataset: str, watch: SystemAlone | None) -> Reading:
    """How a plan's configuration reads chat rows; `dataset` is training or validation."""
    config = plan["config"]
    return Reading(
        policy=policy_of(config["loss"]),
        max_length=config["maxSeqLength"],
        truncation=config["data"]["truncation"],
        mask_column=config["loss"].get("explicitLossMaskColumn"),
        dataset=dataset,
        watch=watch,
    )


def sequences_of(rows: TokenRows, config: dict[str, Any]) -> list[list[int]]:
    """The rows of each sequence: one, or as many as packing lays into maxSeqLength."""
    if config["data"]["packing"]:
        return pack(rows.lengths(), config["maxSeqLength"])
    return one_row_each(len(rows))


def _at_most(first: int | None, count: int | None) -> int | None:
    return count if first is None or count is None else min(first, count)


class _RunReader:
    """Reads each of a run's datasets in its own form, under the run's one set of rules."""

    def __init__(self, job: Job, template: ChatTemplate) -> None:
        self.job, self.template = job, template
        self.config = job.plan["config"]
        self.watch = watch_of(job.plan)
        datasets = [job.plan["dataset"], job.plan["validation"] or {}]
        self.holds_images = any(dataset.get("images") for dataset in datasets)
        if self.holds_images:
            image_rows.require_plain_settings(self.config)

    def read(self, dataset: dict[str, Any], name: str) -> TokenRows:
        first = self._first(name)
        total = _at_most(first, dataset.get("num_examples"))
        self.job.stage("tokenising", 0, total)

        def tick(done: int) -> None:
            self.job.stage("tokenising", done, total)
            self.job.leave_if_asked()

        files = [Path(file) for file in dataset["files"]]
        if dataset.get("format") == prepared_rows.FORMAT:
            return self._prepared(dataset, name, tick)
        reading = reading_of(self.job.plan, name, self.watch)
        if self.holds_images:
            return image_rows.read_image_rows(files, self._images(dataset), reading, tick, self.job.folder)
        rows = read_tokens(files, self.template, reading, tick, self.job.folder, first=first)
        require_masks(reading.mask_column, rows.masked, name)
        return rows

    def _first(self, name: str) -> int | None:
        """How many rows are read: a smoke check trains on those at the dataset's start; None is all of them."""
        smoke = self.job.plan.get("smoke")
        return smoke["rows"] if smoke and name == "training" else None

    def _images(self, dataset: dict[str, Any]) -> ImageReader:
        # Few runs read images, and every run would wait for what is imported for them.
        from optimize_child.reading.images import ImageReader

        return ImageReader(Path(self.job.plan["base_model"]["folder"]), self.template, dataset.get("images") or {})

    def _prepared(self, dataset: dict[str, Any], name: str, tick: Any) -> TokenRows:
        prepared_rows.check_prepared(dataset, self.job.plan["base_model"], self.template.sha256)
        long_rows = LongRows(self.config["maxSeqLength"], self.config["data"]["truncation"])
        return prepared_rows.read_prepared(
            prepared_rows.placed_rows(dataset),
            long_rows,
            tick,
            vocabulary=len(self.template.tokenizer),
            dataset=name,
            folder=self.job.folder,
        )
