"""Direct preference optimisation: a supervised run's way from plan to adapter, over pairs and with their loss."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from optimize_child.job import Job
from optimize_child.pairs import fused_pairs, kept_reference
from optimize_child.pairs.rows import OnePair, PaddedPairs, pairs_of, read_pair_rows
from optimize_child.pairs.trainer import PreferenceTrainer
from optimize_child.reading.row_fit import LongRows
from optimize_child.reading.run_rows import RunRows
from optimize_child.reading.token_rows import TokenRows
from optimize_child.training import supervised
from optimize_child.training.branch import TRAINING_STATE
from optimize_child.training.compute_path import ComputePath
from optimize_child.training.layouts import Layout
from optimize_child.training.trainer import SupervisedTrainer

REFERENCE_TICK = 64


def run(job: Job) -> None:
    """The whole of one attempt, from its plan to its last event."""
    supervised.follow(PreferenceRun(job))


class PreferenceRun(supervised.Run):
    """One attempt of a run over preference pairs; an example is a pair, a sequence its two rows."""

    unfused = ""
    """Why a GPU does not take Liger's loss where it would."""

    def _read(self) -> RunRows:
        validation = self.plan["validation"]
        training = self._pairs(self.plan["dataset"], "training")
        return RunRows(training, self._pairs(validation, "validation") if validation else None)

    def _pairs(self, dataset: dict[str, Any], name: str) -> TokenRows:
        total = dataset.get("num_examples")

        def tick(done: int) -> None:
            self.job.stage("tokenising", done, total)
            self.job.leave_if_asked()

        tick(0)
        long_rows = LongRows(self.config["maxSeqLength"], self.config["data"]["truncation"])
        files = [Path(file) for file in dataset["files"]]
        return read_pair_rows(files, self.template, long_rows, tick, dataset=name, folder=self.job.folder)

    def _sequences(self, rows: TokenRows) -> list[list[int]]:
        return pairs_of(rows)

    def _each(self, rows: TokenRows) -> list[list[int]]:
        return pairs_of(rows)

    def _examples(self, rows: TokenRows) -> int:
        return len(rows) // 2

    # -- how pairs are laid out ----------------------------------------------------------------------------------------

    def _micro(self) -> int:
        """Pairs a pass may hold. Of the sequences that `execution` allows a pass, a pair is two."""
        pairs: int = self.training["microBatchPerGpu"]
        stated = self.plan["execution"].get("microBatchSequences")
        return min(pairs, max(1, stated // 2)) if stated else pairs

    def _path(self) -> ComputePath:
        if self._keeps_whole_passes():
            return ComputePath("compact", False, "preference.fusedLoss is false, so a pass holds all of its pairs")
        usual = super()._path()
        if self._micro() == 1 or self.plan["strict"]:
            return usual
        reason = fused_pairs.why_not(self.model, self.device)
        if reason is None:
            return ComputePath("fused", False, "a pass holds more than one pair, and Liger's fused loss can be used")
        if self.device != "cpu":
            self.unfused = f", since {reason}"
        return usual

    def _layout(self, rows: TokenRows) -> Layout:
        first = 0 if rows is self.rows else len(self.rows)
        if self.path.kind == "unpadded":
            return OnePair(rows, first)
        return PaddedPairs(rows, self._pairs_a_pass(), self.tokenizer.pad_token_id or 0, first)

    def _plain_layout(self, rows: TokenRows) -> Layout:
        """One pair at a time, since the plain way holds all logits of a pass."""
        return PaddedPairs(rows, 1, self.tokenizer.pad_token_id or 0)

    def _loss_of(self, passes: list[dict[str, Any]]) -> float:
        """What both ways are compared by: how likely they find the answers. The loss of the pairs would say less, since
        nothing has moved yet, and in it rounding grows with beta and with the answers' length."""
        return self.trainer.answer_loss(passes)

    def _keeps_whole_passes(self) -> bool:
        """Whether the run asked that the logits of all pairs of a pass be held, as TRL's own loss does."""
        return self._micro() > 1 and not self.config["preference"]["fusedLoss"]

    def _pairs_a_pass(self) -> int:
        return self._micro() if self.path.kind == "fused" or self._keeps_whole_passes() else 1

    # -- the trainer ---------------------------------------------------------------------------------------------------

    def _make_trainer(self, **settings: Any) -> SupervisedTrainer:
        return PreferenceTrainer(preference=self.config["preference"], **settings)

    def _trainer(self) -> SupervisedTrainer:
        trainer = super()._trainer()
        assert isinstance(trainer, PreferenceTrainer)  # noqa: S101 - what _make_trainer made
        self._have_reference(trainer)
        return trainer

    def _have_reference(self, trainer: PreferenceTrainer) -> None:
        """Take over what the attempt that this one goes on from has kept, or read it; and keep it."""
        origin = kept_reference.origin_of(self.plan, self.rows, self.validation)
        before = Path(self.resume["folder"]).parent.parent if self.resume else None
        found = kept_reference.kept(before, origin) if before else None
        if found is None:
            self._read_reference(trainer)
        else:
            trainer.reference = found
        kept_reference.keep(self.job.folder, origin, trainer.reference)

    def _read_reference(self, trainer: PreferenceTrainer) -> None:
        """Every answer that the run will train on or validate with, under the model as the run finds it.

        A branch that keeps its source's training state keeps its source's reference too: the model without adapter.
        """
        of_base = self.source is not None and self.source.mode == TRAINING_STATE
        used = self._used()
        self.job.stage("reference", 0, len(used))
        for start in range(0, len(used), REFERENCE_TICK):
            pairs = [self.sequences[number] for number in used[start : start + REFERENCE_TICK]]
            trainer.read_reference(self.layout.passes(pairs), of_base=of_base)
            self.job.stage("reference", start + len(pairs), len(used))
            self.job.leave_if_asked()
        trainer.read_reference(self.course.validation, of_base=of_base)

    def _used(self) -> list[int]:
        """The pairs that some update of the run trains on: all, or those of the updates that a cap leaves."""
        if self.total_steps >= len(self.updates):
            return list(range(len(self.sequences)))
        updates = list(self.updates)[: self.total_steps]
        return sorted({pair for update in updates for pair in update})

    def _resolved(self) -> dict[str, Any]:
        preference = self.config["preference"]
        loss = {"kind": preference["lossType"], "beta": preference["beta"], "fused": not self._keeps_whole_passes(),
                "liger": self.path.kind == "fused", "how": self._how()}  # fmt: skip
        return {**super()._resolved(), "preferenceLoss": loss}

    def _how(self) -> str:
        if self.path.kind == "fused":
            return f"with Liger's fused loss, {self._micro()} pairs a pass"
        return "every pair of a pass at once" if self._keeps_whole_passes() else f"one pair at a time{self.unfused}"
