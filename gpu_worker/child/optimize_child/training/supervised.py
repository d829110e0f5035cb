"""A run's attempt, as supervised fine-tuning goes and other methods vary it: rows, model, training, each stage told."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
import transformers
from peft import LoraConfig
from transformers.utils import logging as transformers_logging
from trl import SFTConfig

from optimize_child.bases.models import load_model, lora_config
from optimize_child.engine_runtime import AFTER_LOAD, RuntimeRecord, changed_by_setup, model_part
from optimize_child.failures import JobFailure, Stopped
from optimize_child.job import Job
from optimize_child.reading.image_rows import IMAGES_PATH, ImageRows
from optimize_child.reading.run_rows import RunRows, read_run_rows, sequences_of
from optimize_child.reading.token_rows import TokenRows
from optimize_child.rendering.tokenizer import load_template, load_tokenizer
from optimize_child.saves import snapshots
from optimize_child.training import reference_check, segments
from optimize_child.training.branch import Source
from optimize_child.training.compute_path import ComputePath, choose_path
from optimize_child.training.layouts import Layout, Packed, Padded, Unpadded
from optimize_child.training.order import Updates, one_row_each, total_updates
from optimize_child.training.run_settings import data_fit, hyperparameters, padding_share, requested_settings
from optimize_child.training.trainer import Course, SupervisedTrainer
from optimize_child.training.trl_arguments import trainer_settings

UNCHANGED = ("output_dir", "report_to")
"""Settings of TRL that it only writes otherwise."""


def follow(run_: Run) -> None:
    """Take a run the whole way."""
    transformers_logging.set_verbosity_warning()
    transformers_logging.disable_progress_bar()
    torch.set_num_threads(run_.plan["threads"])
    try:
        run_.read_rows()
        if run_.already_done():
            run_.carry_over()
            return
        run_.build()
        run_.train()
    finally:
        run_.close()


class Run:
    """One attempt of a supervised run."""

    def __init__(self, job: Job) -> None:
        self.job = job
        self.plan = job.plan
        self.config = job.plan["config"]
        self.training = self.config["hyperparams"]["training"]
        self.stated_lora = dict(self.config["hyperparams"]["lora"])
        self.device = job.plan["device"]["kind"]
        self.resume = job.plan["resume"]
        self.source = Source(job.plan["start"]) if job.plan.get("start") else None
        self.base = Path(job.plan["base_model"]["folder"])
        self.runtime = RuntimeRecord(job.events, self.device)

    def close(self) -> None:
        """Let what runs beside the job end: nothing does beside one that learns from rows."""

    # -- rows -------------------------------------------------------------------------------------------------------

    def read_rows(self) -> None:
        """Tokens and masks of every row, refused by name where one cannot be trained on."""
        job = self.job
        job.stage("reading")
        if self.resume:
            snapshots.verify_resume(self.resume)
        if self.source:
            self.source.verify()
        self.tokenizer = load_tokenizer(self.base)
        self.template = load_template(self.plan["base_model"], self.tokenizer)
        self.rows, self.validation = self._read()
        self.sequences = self._sequences(self.rows)
        per_update = self.training["microBatchPerGpu"] * self.training["gradientAccumulation"]
        self.updates = Updates(
            len(self.sequences),
            per_update=per_update,
            seed=self.training["seed"],
            shuffle=self.config["data"]["shuffle"],
            offset=self.source.offset if self.source else 0,
        )
        self.total_steps = self.plan["total_steps"] or self._total_updates()
        job.events.emit(
            "plan_size",
            totalSteps=self.total_steps,
            rowsPerEpoch=self._examples(self.rows),
            updatesPerEpoch=len(self.updates),
            sequences=len(self.sequences),
        )

    def _read(self) -> RunRows:
        return read_run_rows(self.job, self.template)

    def _total_updates(self) -> int:
        epochs, most = self.training["epochs"], self.training["maxSteps"]
        return total_updates(len(self.updates), epochs=epochs, max_steps=most)

    def _sequences(self, rows: TokenRows) -> list[list[int]]:
        return sequences_of(rows, self.config)

    def _examples(self, rows: TokenRows) -> int:
        """How many examples of a dataset the rows hold."""
        return len(rows)

    # -- a run whose last attempt died after its final snapshot ------------------------------------------------------

    def already_done(self) -> bool:
        return bool(self.resume) and self.resume["step"] >= self.total_steps

    def carry_over(self) -> None:
        """Nothing is left to train: the snapshot becomes this attempt's final one, byte for byte."""
        source = Path(self.resume["folder"])
        step = self.resume["step"]

        def fill(folder: Path) -> None:
            for name in (name for names in snapshots.FILES.values() for name in names):
                (folder / name).write_bytes((source / name).read_bytes())

        written = snapshots.write_snapshot(self.job.folder, step, fill, **self._snapshot_names())
        event = written.event(self.job.folder)
        self.job.events.emit("snapshot", sync=True, step=step, final=True, epoch=step / len(self.updates), **event)
        self.job.events.emit("finished", step=step, adapter=event["folder"], sync=True)

    def _snapshot_names(self) -> dict[str, str]:
        return {"run": self.plan["subject"]["id"], "attempt_id": self.plan["attempt"]}

    # -- the model and the trainer -----------------------------------------------------------------------------------

    def build(self) -> None:
        """Load the model, lay the adapter over it, and put TRL's trainer around both."""
        job, model_config = self.job, self.config["model"]
        job.leave_if_asked()
        job.stage("loading")
        self.model = load_model(
            self.base,
            device=self.device,
            precision=model_config["precision"],
            attention=model_config["attentionImplementation"],
        )
        if self.device == "cuda":
            torch.cuda.reset_peak_memory_stats()
        job.stage("starting")
        self.path = self._path()
        self.layout = self._layout(self.rows)
        self._emit_data_fit()
        self.course = self._course()
        self.trainer = self._trainer()
        self._emit_settings()
        if self.plan["first_attempt"] and self.path.kind != "plain":
            self._check_reference()

    def _path(self) -> ComputePath:
        if isinstance(self.rows, ImageRows):
            return IMAGES_PATH
        return choose_path(
            self.model.config,
            device=self.device,
            strict=self.plan["strict"],
            dropout=self.config["hyperparams"]["lora"]["dropout"],
            attention=self.config["model"]["attentionImplementation"],
        )

    def _micro(self) -> int:
        stated = self.plan["execution"].get("microBatchSequences")
        return min(self.training["microBatchPerGpu"], stated or self.training["microBatchPerGpu"])

    def _layout(self, rows: TokenRows) -> Layout:
        if isinstance(rows, ImageRows):
            return rows.layout(self._micro())
        if self.path.kind == "unpadded":
            return Unpadded(
                rows,
                budget=self._micro() * self.config["maxSeqLength"],
                share_prefix=self.path.share_prefix,
                max_rows=self.plan["execution"].get("microBatchSequences"),
            )
        return self._plain_layout(rows)

    def _plain_layout(self, rows: TokenRows) -> Layout:
        if self.config["data"]["packing"]:
            return Packed(rows, self._micro())
        return Padded(rows, self._micro(), self.tokenizer.pad_token_id or 0)

    def _each(self, rows: TokenRows) -> list[list[int]]:
        """The sequences of rows that are read one by one, whatever training packs."""
        return one_row_each(len(rows))

    def _course(self) -> Course:
        passes: list[dict[str, Any]] = []
        if self.validation is not None:
            passes = self._layout(self.validation).passes(self._each(self.validation))
        return Course(
            total_steps=self.total_steps,
            save_every=self.plan["execution"].get("saveEvery"),
            validate_every=self.training["validationFrequencySteps"],
            reason_to_leave=self.job.control.reason_to_leave,
            pause_at=self.plan.get("pause_at"),
            whole_save_every=self.plan["execution"].get("resumableSaveEvery") or 10,
            whole_save_minutes=self.plan["execution"].get("resumableSaveMinutes") or 5,
            validation=passes,
        )

    def _trainer(self) -> SupervisedTrainer:
        self.lora = self._lora()
        self.settings = trainer_settings(
            self.config,
            output=self.job.folder / "trainer",
            total_steps=self.total_steps,
            updates_per_epoch=len(self.updates),
            device=self.device,
        )
        self.arguments = SFTConfig(**self.settings)
        trainer = self._make_trainer(
            rows=self.rows,
            sequences=self.sequences,
            updates=self.updates,
            layout=self.layout,
            path=self.path,
            course=self.course,
            events=self.job.events,
            attempt=self.job.folder,
            names={
                "run": self.plan["subject"]["id"],
                "attempt": self.plan["attempt"],
                "dataset": self.plan["dataset"].get("content_hash") or "",
            },
            base_model=self.plan["base_model"],
            source=self.source,
            runtime=self.runtime,
            model=self.model,
            args=self.arguments,
            processing_class=self.tokenizer,
            peft_config=self.lora,
        )
        if self.device == "cpu":
            _adapter_in_fp32(trainer.model)
        if self.source:
            self.source.load_weights(trainer.model)
        if self.path.kind == "unpadded":
            self.model.config._attn_implementation = segments.NAME
        return trainer

    def _lora(self) -> LoraConfig:
        """The adapter that is trained."""
        return lora_config(self.model, self.config["hyperparams"]["lora"])

    def _make_trainer(self, **settings: Any) -> SupervisedTrainer:
        return SupervisedTrainer(**settings)

    # -- what is said before the first update ------------------------------------------------------------------------

    def _emit_data_fit(self) -> None:
        share = padding_share(self.rows, self.layout, self.updates, self._micro())
        validation = self._fit(self.validation) if self.validation is not None else None
        self.job.events.emit("data_fit", **self._fit(self.rows), paddingShare=share, validation=validation)

    def _fit(self, rows: TokenRows) -> dict[str, Any]:
        return {**data_fit(rows), "rows": self._examples(rows)}

    def _emit_settings(self) -> None:
        values, digest = self._hyperparameters()
        self.job.events.emit("hparams", values=values, sha=digest)
        self._emit_engine_config()
        self._emit_runtime()

    def _emit_engine_config(self) -> None:
        requested = requested_settings(self.arguments, self.lora)
        self.job.events.emit("engine_config", requested=requested, resolved=self._resolved())

    def _hyperparameters(self) -> tuple[dict[str, Any], str]:
        return hyperparameters(self.config, self.total_steps)

    def _resolved(self) -> dict[str, Any]:
        """What the job runs with."""
        trainable = sum(p.numel() for p in self.trainer.model.parameters() if p.requires_grad)
        return {
            "engine": "trl",
            "path": self.path.document(),
            "device": self.device,
            "threads": torch.get_num_threads(),
            "computeType": str(self.model.dtype).removeprefix("torch."),
            "precision": self.config["model"]["precision"],
            "attention": self.model.config._attn_implementation,
            "gradientCheckpointing": bool(self.config["model"]["gradientCheckpointing"]),
            "liger": bool(self.arguments.use_liger_kernel),
            "trainableParameters": trainable,
            "passTokens": self._micro() * self.config["maxSeqLength"],
            "chatTemplateSha256": self.template.sha256,
            "architecture": type(self.model).__name__,
            "transformers": transformers.__version__,
        }

    def _emit_runtime(self) -> None:
        """What setting up found and changed, and what the model takes now that it is loaded."""
        self.runtime.tell(trainer=self._derived(), model=model_part(self.trainer.model),
                          rolloutEngine=self._rollout_engines())  # fmt: skip
        self.runtime.moment(AFTER_LOAD)

    def _derived(self) -> dict[str, Any]:
        """What the trainer worked out of the run's settings as it was set up."""
        args = self.trainer.args
        return {
            "updates": self.total_steps,
            "updatesPerEpoch": len(self.updates),
            "sequencesPerUpdate": self.updates.per_update,
            "sequencesPerPass": self._pass_sequences(),
            "warmupUpdates": args.warmup_steps,
            "processes": args.world_size,
            "computePath": self.path.document(),
            "layout": type(self.layout).__name__,
            "changedBySetup": changed_by_setup(self._stated(), self._stands()),
        }

    def _stated(self) -> dict[str, Any]:
        """The settings that setting up may change, as they were stated: TRL's by its names, the others by ours."""
        return {
            **{name: value for name, value in self.settings.items() if name not in UNCHANGED},
            "model.attentionImplementation": self.config["model"]["attentionImplementation"],
            **{f"lora.{name}": self.stated_lora[name] for name in ("rank", "alpha", "dropout")},
            **self._stated_pass(),
        }

    def _stated_pass(self) -> dict[str, Any]:
        return {"training.microBatchPerGpu": self.training["microBatchPerGpu"]}

    def _stands(self) -> dict[str, Any]:
        """The same settings as they stand now."""
        return {
            **self.trainer.args.to_dict(),
            "model.attentionImplementation": self.model.config._attn_implementation,
            "lora.rank": self.lora.r,
            "lora.alpha": self.lora.lora_alpha,
            "lora.dropout": self.lora.lora_dropout,
            "training.microBatchPerGpu": self._pass_sequences(),
        }

    def _pass_sequences(self) -> int:
        """How many sequences a pass holds at most: rows, pairs of them, or completions."""
        return self._micro()

    def _rollout_engines(self) -> list[dict[str, Any]]:
        """What samples: nothing does in a supervised run."""
        return []

    def _check_reference(self) -> None:
        """The first rows' loss the plain way and this run's way."""
        sequences = self._checked()
        reference_check.check_first_loss(
            self.job.events,
            self.device,
            ours=lambda: self._loss_of(self.layout.passes(sequences)),
            plain=lambda: self._plain_loss(self._plain_layout(self.rows).passes(sequences)),
        )

    def _checked(self) -> Any:
        """The sequences whose loss is computed both ways."""
        first = next(iter(self.updates))[: min(reference_check.ROWS, self._micro())]
        return [self.sequences[index] for index in first]

    def _loss_of(self, passes: list[dict[str, Any]]) -> float:
        return self.trainer.mean_loss(passes)

    def _plain_loss(self, passes: list[dict[str, Any]]) -> float:
        attention = self.config["model"]["attentionImplementation"]
        ours, self.trainer._path = self.trainer._path, ComputePath("plain", False, "reference")
        try:
            with segments.attention_of(self.model, attention):
                return self._loss_of(passes)
        finally:
            self.trainer._path = ours

    # -- training ----------------------------------------------------------------------------------------------------

    def train(self) -> None:
        """Train to the end, or to the boundary at which the job was asked to leave."""
        folder = self.resume["folder"] if self.resume else None
        if folder:
            self._check_position(Path(folder))
        elif self.source:
            self.source.check_data({**self.trainer.position(), "dataset": self.trainer._names["dataset"]})
        self.job.leave_if_asked()
        self.job.stage("training", self.resume["step"] if self.resume else 0, self.total_steps)
        try:
            self.trainer.train(resume_from_checkpoint=folder)
        except Stopped as stopped:
            self.trainer.leave_update(stopped.reason, came_from=self.resume["step"] if self.resume else 0)
        self.trainer.finish_saves()
        step = self.trainer.state.global_step
        if self.course.left:
            raise Stopped(self.course.left, step)
        self._finish(step)

    def _finish(self, step: int) -> None:
        self.job.events.emit(
            "finished", step=step, adapter=f"snapshots/step-{step}", totals=self.trainer._totals, sync=True
        )

    def _check_position(self, folder: Path) -> None:
        """A snapshot of other data would resume into an order that was never its own."""
        position = json.loads((folder / "position.json").read_bytes())
        now = self.trainer.position()
        different = [name for name in ("sequences", "rows", "per_update") if position[name] != now[name]]
        if different:
            raise JobFailure(
                "snapshot_invalid",
                f"The snapshot {folder.name} was made over other data: {different[0]} was {position[different[0]]} "
                f"and is {now[different[0]]}.",
                hint="Start the run again.",
            )
        self.trainer.restore_totals(position)


def _adapter_in_fp32(model: torch.nn.Module) -> None:
    """TRL stores the adapter of a quantized model as bf16, which a CPU computes slowly and rounds every update to."""
    for parameter in model.parameters():
        if parameter.requires_grad:
            parameter.data = parameter.data.float()
