"""The page over TRL: its supervised trainer, fed our updates, watched by our checks, saved as our snapshots."""

from __future__ import annotations

import contextlib
import json
import math
import shutil
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import torch
from torch.utils.data import DataLoader
from transformers import TrainerCallback, TrainerControl, TrainerState
from trl import SFTTrainer

from datasets import Dataset
from optimize_child.engine_runtime import AFTER_STEP, RuntimeRecord
from optimize_child.events import EventLog
from optimize_child.memory import MemorySplit, PassMemory, peak_memory
from optimize_child.reading.token_rows import IGNORED, TokenRows
from optimize_child.saves import snapshots
from optimize_child.saves.captured import adapter_config, adapter_weights, copied, not_finite, write_adapter
from optimize_child.saves.save_queue import Save, SaveQueue
from optimize_child.saves.saving import Saver
from optimize_child.training.branch import TRAINING_STATE, RestoreGenerators, Source
from optimize_child.training.compute_path import ComputePath
from optimize_child.training.head import compact_head
from optimize_child.training.layouts import Layout
from optimize_child.training.order import Updates


@dataclass
class Course:
    """What a run does besides updating: when it saves and validates, when it ends, whom it asks whether to go on."""

    total_steps: int
    save_every: int | None
    validate_every: int
    reason_to_leave: Callable[[], str | None]
    validation: list[dict[str, Any]] = field(default_factory=list)
    pause_at: int | None = None
    whole_save_every: int = 10
    whole_save_minutes: float = 5
    left: str | None = None

    def saves_at(self, step: int, *, epoch_ends: bool) -> bool:
        """Periodic saves, and one at each epoch's end, where saving is on; always one at the end."""
        if step >= self.total_steps:
            return True
        return bool(self.save_every) and (step % self.save_every == 0 or epoch_ends)

    def leaves_at(self, step: int) -> str | None:
        """Why the job leaves at this boundary: it was asked to, or its plan pauses here. Not at its last step."""
        if step >= self.total_steps:
            return None
        return self.reason_to_leave() or ("pause" if step == self.pause_at else None)

    def validates_at(self, step: int) -> bool:
        return bool(self.validation) and (step % self.validate_every == 0 or step >= self.total_steps)


class _Boundaries(TrainerCallback):
    """Between two updates: put the order at its epoch, save, validate, leave when asked."""

    def __init__(self, course: Course, updates: Updates) -> None:
        self.course = course
        self.updates = updates

    def on_epoch_begin(self, args: Any, state: TrainerState, control: TrainerControl, **_: Any) -> TrainerControl:
        self.updates.epoch = state.global_step // len(self.updates)
        return control

    def on_step_end(self, args: Any, state: TrainerState, control: TrainerControl, **_: Any) -> TrainerControl:
        step = state.global_step
        self.course.left = self.course.leaves_at(step)
        ends = self.updates.ends_epoch(step)
        control.should_evaluate = self.course.validates_at(step)
        control.should_save = self.course.saves_at(step, epoch_ends=ends) or self.course.left not in (None, "drop")
        control.should_training_stop |= self.course.left is not None
        return control


class SupervisedTrainer(SFTTrainer):
    """TRL's trainer with whole updates as its batches: each update's passes are laid out by us and summed here."""

    def __init__(
        self,
        *,
        rows: TokenRows,
        sequences: Sequence[Sequence[int]],
        updates: Updates,
        layout: Layout,
        path: ComputePath,
        course: Course,
        events: EventLog,
        attempt: Path,
        names: dict[str, str],
        base_model: dict[str, Any],
        runtime: RuntimeRecord,
        source: Source | None = None,
        **trl: Any,
    ) -> None:
        self._updates = updates
        self._sequences = sequences
        self._layout = layout
        self._path = path
        self._course = course
        self._events = events
        self._attempt = attempt
        self._names = names
        self._base_model = base_model
        self._source = source
        self._runtime = runtime
        self._rows = rows
        self._tokens_of_update = 0
        self._trained_of_update = 0
        self._totals = {"tokens": 0, "trained_tokens": 0}
        self._boundary = time.perf_counter()
        self._split = MemorySplit()
        queue = SaveQueue(every=course.whole_save_every, minutes=course.whole_save_minutes, clock=time.monotonic)
        self._saves_told = (0, 0)
        self._saved_at: int | None = None
        self._saves = Saver(queue, write=self._write, discard=self._discard, report=self._report_saves)
        super().__init__(
            train_dataset=as_dataset(rows),
            data_collator=_unchanged,
            callbacks=[_Boundaries(course, updates)],
            **trl,
        )
        if source is not None and source.mode == TRAINING_STATE:
            self.add_callback(RestoreGenerators(self, source.folder))
        self._pass_memory = PassMemory(self.args.device.type, attempt / "pass.json")

    def create_optimizer(self, *args: Any, **kwargs: Any) -> Any:
        """A branch that keeps its source's training state starts from its optimizer."""
        optimizer = super().create_optimizer(*args, **kwargs)
        if self._source is not None and self._source.mode == TRAINING_STATE:
            self._source.load_state(optimizer, learning_rate=self.args.learning_rate)
        return optimizer

    def get_train_dataloader(self) -> DataLoader:
        """One batch an update, in our order. Its own generator: reading data draws nothing from the run's."""
        return DataLoader(
            _Sequences(self._sequences),
            batch_sampler=self._updates,
            collate_fn=self._lay_out,
            generator=torch.Generator(),
        )

    def _lay_out(self, sequences: list[Sequence[int]]) -> dict[str, Any]:
        indices = [row for sequence in sequences for row in sequence]
        labels = [torch.from_numpy(self._rows.row(index)[1]) for index in indices]
        return {"labels": torch.cat(labels), "passes": self._layout.passes(sequences)}

    def training_step(self, model: Any, inputs: dict[str, Any], num_items_in_batch: Any = None) -> torch.Tensor:
        """One update's gradient: each pass adds its share of the update's mean loss."""
        model.train()
        self._trained_of_update = int((inputs["labels"] != IGNORED).sum())
        self._tokens_of_update = len(inputs["labels"])
        total = torch.zeros((), device=self.args.device)
        whole = self.whole_of(inputs)
        for part in inputs["passes"]:
            with self._pass_memory.of(part["input_ids"].numel(), step=self.state.global_step + 1):
                loss = self.pass_loss(model, part, whole)
                self.accelerator.backward(loss)
            total += loss.detach()
        return total

    def pass_loss(self, model: Any, part: dict[str, Any], whole: int) -> torch.Tensor:
        """TRL's own loss of one pass, over the `whole` number of trained tokens."""
        with self.compute_loss_context_manager(), self._head():
            return self.compute_loss(model, self._prepare_inputs(dict(part)), num_items_in_batch=torch.tensor(whole))

    def share_of(self, part: dict[str, Any]) -> int:
        """How much of what the loss is a mean over lies in one pass: its trained tokens."""
        return count_trained(part)

    def whole_of(self, inputs: dict[str, Any]) -> int:
        """The same of a whole update."""
        return self._trained_of_update

    def _head(self) -> contextlib.AbstractContextManager[None]:
        return contextlib.nullcontext() if self._path.kind == "plain" else compact_head()

    def floating_point_ops(self, inputs: dict[str, Any]) -> int:
        """Not counted: walking every parameter for it would cost more than a small model's step."""
        return 0

    def _clip_grad_norm(self, model: Any) -> torch.Tensor:
        """The library's clipping in its two halves; in between, each gradient still is what the update computed."""
        norm = self._finite_norm(model)
        torch.nn.utils.clip_grads_with_norm_(model.parameters(), self.args.max_grad_norm, norm)
        return norm

    def _get_grad_norm(self, model: Any, grad_norm: Any = None) -> Any:
        return self._finite_norm(model) if grad_norm is None else grad_norm

    def _finite_norm(self, model: Any) -> torch.Tensor:
        """The norm of the update's gradient. The last place where a number that is none can be kept from the weights;
        raises JobFailure with the tensor that it is in."""
        gradients = {name: part.grad for name, part in model.named_parameters() if part.grad is not None}
        norm = torch.nn.utils.get_total_norm(gradients.values())
        step, loss = self.state.global_step + 1, float(self._tr_loss)
        if not math.isfinite(loss):
            raise not_finite("loss", step, loss)
        if not math.isfinite(float(norm)):
            found = [name for name, gradient in gradients.items() if not torch.isfinite(gradient).all()]
            raise not_finite("gradient", step, float(norm), found)
        return norm

    def evaluate(self, *_: Any, **__: Any) -> dict[str, float]:
        """One reading of the validation rows, under the run's own mask policy."""
        started = time.perf_counter()
        tokens = sum(count_trained(part) for part in self._course.validation)
        loss = self.mean_loss(self._course.validation)
        if not math.isfinite(loss):
            raise not_finite("loss", self.state.global_step, loss)
        self._events.emit(
            "validation",
            step=self.state.global_step,
            loss=loss,
            perplexity=self.perplexity_of(loss),
            tokens=tokens,
            seconds=round(time.perf_counter() - started, 4),
        )
        self.control.should_evaluate = False
        self._boundary = time.perf_counter()
        return {"eval_loss": loss}

    def perplexity_of(self, loss: float) -> float | None:
        """What a mean negative log-likelihood means in tokens to choose from."""
        return math.exp(min(loss, 700.0))

    def mean_loss(self, passes: Sequence[dict[str, Any]]) -> float:
        """The mean loss of some passes, without touching gradients, generators or training mode."""
        mode = self.model.training
        self.model.eval()
        try:
            with torch.no_grad():
                whole = sum(self.share_of(part) for part in passes)
                return sum(float(self.pass_loss(self.model, part, whole)) for part in passes)
        finally:
            self.model.train(mode)
            self._metrics["eval"].clear()

    def log(self, logs: dict[str, float], start_time: float | None = None) -> None:
        """One metrics event an update. TRL's history of all of them is not kept: it would grow every snapshot."""
        self.control.should_log = False
        if "loss" not in logs:
            return
        self._runtime.moment(AFTER_STEP)
        now = time.perf_counter()
        seconds, self._boundary = now - self._boundary, now
        self._totals["tokens"] += self._tokens_of_update
        self._totals["trained_tokens"] += self._trained_of_update
        quality = {name: sum(found) / len(found) for name, found in self._metrics["train"].items() if found}
        quality.pop("num_tokens", None)
        self._metrics["train"].clear()
        peaks = peak_memory(self.args.device.type)
        self._events.emit(
            "metrics",
            step=self.state.global_step,
            values={
                "loss": logs["loss"],
                "learning_rate": logs["learning_rate"],
                "grad_norm": float(logs["grad_norm"]),
                "epoch": self.state.epoch,
                "tokens": self._tokens_of_update,
                "trained_tokens": self._trained_of_update,
                "tokens_per_second": round(self._tokens_of_update / seconds, 2),
                "step_seconds": round(seconds, 5),
                **quality,
                **peaks,
                **self._split.of(peaks, self.model, self.optimizer),
            },
        )

    def _save_checkpoint(self, model: Any, trial: Any) -> None:
        """Capture this boundary: all that a later attempt needs to go on to the same bytes; written meanwhile."""
        self._saves.submit(self._capture())
        self._saved_at = self.state.global_step
        self._boundary = time.perf_counter()

    def leave_update(self, reason: str, *, came_from: int) -> None:
        """Leave an update that has changed nothing yet: weights, optimizer and counts are those of the boundary before
        it, which is saved as it would have been there. Nothing is saved twice, nor what the attempt came from."""
        self._course.left = reason
        if reason != "drop" and self.state.global_step not in (came_from, self._saved_at):
            self._save_checkpoint(self.model, None)

    def _capture(self) -> Save:
        step, folder = self.state.global_step, snapshots.beside(self._attempt, self.state.global_step)
        self._save_rng_state(str(folder))
        self.state.save_to_json(str(folder / "trainer_state.json"))
        (folder / "position.json").write_text(json.dumps({**self._names, **self.position()}, sort_keys=True))
        states = {"optimizer.pt": self.optimizer, "scheduler.pt": self.lr_scheduler}
        state = {name: copied(part.state_dict()) for name, part in states.items()}
        epoch_end = self._updates.ends_epoch(step)
        return Save(step, adapter_weights(self.model, step=step), state, epoch_end, step >= self._course.total_steps)

    def finish_saves(self) -> None:
        """Wait for what is being saved; a job that leaves early keeps only its newest save of those that wait."""
        self._events.emit("stage", name="saving")
        self._saves.finish(keep_epochs=self._course.left is None)

    def _write(self, save: Save) -> None:
        """Runs beside the training, on what was captured."""
        folder = self._attempt / "snapshots" / f".step-{save.step}.partial"
        write_adapter(save.weights, self._adapter_config(), folder)
        for name, part in (save.state or {}).items():
            torch.save(part, folder / name)
        if not save.is_whole:
            for name in snapshots.FILES["trainingState"]:
                (folder / name).unlink(missing_ok=True)
        kinds = snapshots.FILES if save.is_whole else ("weights",)
        written = snapshots.publish(
            folder, save.step, kinds, run=self._names["run"], attempt_id=self._names["attempt"]
        )
        epoch = (self._updates.offset + save.step) / len(self._updates)
        event = written.event(self._attempt)
        self._events.emit("snapshot", sync=True, step=save.step, epoch=epoch, final=save.final, **event)

    def _report_saves(self, waiting: int, skipped: int) -> None:
        if (waiting, skipped) != self._saves_told:
            self._saves_told = (waiting, skipped)
            self._events.emit("saves", waiting=waiting, skipped=skipped)

    def _discard(self, save: Save) -> None:
        shutil.rmtree(self._attempt / "snapshots" / f".step-{save.step}.partial", ignore_errors=True)

    def _adapter_config(self) -> dict[str, Any]:
        return adapter_config(self.model, self._base_model)

    def position(self) -> dict[str, Any]:
        """Where in its data the run stands, and what the data was."""
        return {
            "step": self.state.global_step,
            "sequences": len(self._sequences),
            "rows": len(self._rows),
            "per_update": self._updates.per_update,
            "offset": self._updates.offset,
            **self._totals,
        }

    def restore_totals(self, position: dict[str, Any]) -> None:
        """Go on counting from a snapshot's position."""
        self._totals = {name: position[name] for name in self._totals}


class _Sequences:
    """What the data loader indexes: each item is the rows of one sequence."""

    def __init__(self, sequences: Sequence[Sequence[int]]) -> None:
        self._sequences = sequences

    def __len__(self) -> int:
        return len(self._sequences)

    def __getitem__(self, index: int) -> Sequence[int]:
        return self._sequences[index]


def _unchanged(batch: Any) -> Any:
    return batch


def as_dataset(rows: TokenRows) -> Dataset:
    """The rows as the ids and labels TRL takes, over the same memory."""
    starts = pa.array(rows.starts)
    columns = {
        name: pa.LargeListArray.from_arrays(starts, pa.array(values))
        for name, values in (("input_ids", rows.ids), ("labels", rows.labels))
    }
    return Dataset(pa.table(columns))


def count_trained(part: dict[str, Any]) -> int:
    """The trained tokens of one pass. Its first token has no label, so shifted and unshifted labels count alike."""
    labels = part["labels"] if "labels" in part else part["shift_labels"]
    return int((labels != IGNORED).sum())
