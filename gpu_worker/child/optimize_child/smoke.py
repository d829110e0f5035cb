"""A smoke check: train on a slice of the rows until they are memorised, then see that the model reproduces them.

Memorised is a reading of the slice as training reads it: every trained token, but for as many as the threshold lets
rows miss, is the one the model finds likeliest. A model that answers otherwise when it is asked has a problem in its
data, its mask or its tokenizer.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import torch
from transformers import TrainerCallback, TrainerControl, TrainerState

from optimize_child.answering.answers import Asked, Limits, answer_all
from optimize_child.failures import Stopped
from optimize_child.reading.lines import read_lines
from optimize_child.reading.questions import Question, answer_text, question_of, stop_ids
from optimize_child.reading.rows import read_row
from optimize_child.training.supervised import Run
from optimize_child.training.trainer import Course, SupervisedTrainer, count_trained

WORTH_READING = 0.9
"""The share of an update's tokens that must be the likeliest ones before the whole slice is read for it."""
ROOM = 8
"""Tokens an answer may have beyond the longest that is expected; a longer one is another answer."""


class SmokeCourse(Course):
    """Leaves no final save: what was learned is a slice by heart, which no model is made of."""

    def saves_at(self, step: int, *, epoch_ends: bool) -> bool:
        return step < self.total_steps and super().saves_at(step, epoch_ends=epoch_ends)


class Memorising(TrainerCallback):
    """Ends the training at the end of the first epoch after which the slice is memorised."""

    def __init__(self, trainer: SupervisedTrainer, passes: list[dict[str, Any]], allowed: int) -> None:
        self.trainer, self.passes, self.allowed = trainer, passes, allowed
        self.memorised = False

    def on_step_end(self, args: Any, state: TrainerState, control: TrainerControl, **_: Any) -> TrainerControl:
        if self.trainer._updates.ends_epoch(state.global_step) and self._is_worth_reading():
            started = time.perf_counter()
            self.memorised = wrong_tokens(self.trainer, self.passes) <= self.allowed
            self.trainer._boundary += time.perf_counter() - started
        if self.memorised:
            # What is left to do is soon done; a pause that was asked for at this boundary would only come after it.
            self.trainer._course.left = None
            control.should_save, control.should_training_stop = False, True
        return control

    def _is_worth_reading(self) -> bool:
        right = self.trainer._metrics["train"]["mean_token_accuracy"]
        return sum(right) >= WORTH_READING * len(right)


def wrong_tokens(trainer: SupervisedTrainer, passes: list[dict[str, Any]]) -> int:
    """How many trained tokens of some passes are not the likeliest ones; generators and gradients stay as they are."""
    found = trainer._metrics["eval"]["mean_token_accuracy"]
    trainer.model.eval()
    try:
        with torch.no_grad():
            for part in passes:
                trainer.pass_loss(trainer.model, part, 1)
        return sum(round((1 - right) * count_trained(part)) for right, part in zip(found, passes, strict=True))
    finally:
        trainer.model.train()
        trainer._metrics["eval"].clear()


class SmokeRun(Run):
    """One attempt of a smoke check."""

    @property
    def threshold(self) -> float:
        """The share of the scored rows that a working run reproduces."""
        return float(self.plan["smoke"]["threshold"])

    def _course(self) -> Course:
        return SmokeCourse(**vars(super()._course()))

    def _trainer(self) -> SupervisedTrainer:
        trainer = super()._trainer()
        allowed = int((1 - self.threshold) * len(self.rows) + 1e-9)
        self.memorising = Memorising(trainer, self.layout.passes(self.sequences), allowed)
        trainer.add_callback(self.memorising)
        return trainer

    def _finish(self, step: int) -> None:
        """Ask for every row of the slice, say which were not reproduced, and give the verdict."""
        questions, tool_answers = self._questions()
        missed = [event for event in self._answers(questions, step) if event]
        for event in sorted(missed, key=lambda event: event["position"]):
            self.job.events.emit("missed", **event)
        reproduced = len(questions) - len(missed)
        score = reproduced / len(questions) if questions else None
        self.job.events.emit(
            "smoke",
            verdict=verdict_of(score, self.threshold, memorised=self.memorising.memorised),
            score=score,
            threshold=self.threshold,
            rows=len(self.rows),
            scored=len(questions),
            reproduced=reproduced,
            toolAnswers=tool_answers,
            memorised=self.memorising.memorised,
            step=step,
            sync=True,
        )
        self.job.events.emit("finished", step=step, totals=self.trainer._totals, sync=True)

    def _questions(self) -> tuple[list[Question], int]:
        """The slice's rows whose answer is text, each as it is asked, and how many answers call tools."""
        files = [Path(file) for file in self.plan["dataset"]["files"]]
        found, tool_answers = [], 0
        for line in islice(read_lines(files), self.plan["smoke"]["rows"]):
            row = read_row(line.data)
            if row["messages"][-1].get("tool_calls"):
                tool_answers += 1
            else:
                found.append(question_of(self.template, line.position, row))
        return found, tool_answers

    def _answers(self, questions: list[Question], step: int) -> Iterator[dict[str, Any] | None]:
        """For each question, in the order they are answered: None, or what is told of a row not reproduced."""
        prompts = [Asked(question, question.tokens) for question in questions]
        limits = Limits(stop_ids(self.base, self.tokenizer), self._longest_answer(questions) + ROOM)
        self.trainer.model.eval()
        pad = self.tokenizer.pad_token_id or 0
        for done, asked in enumerate(answer_all(self.trainer.model, prompts, limits, pad_token_id=pad)):
            if done % 10 == 0:
                self.job.stage("reproducing", done, len(prompts))
            self._leave_if_asked(step)
            yield self._missed(asked)

    def _longest_answer(self, questions: list[Question]) -> int:
        ids, _ = self.template.tokenize([question.expected or "" for question in questions] or [""])
        return max(len(tokens) for tokens in ids)

    def _leave_if_asked(self, step: int) -> None:
        """A pause that would save lets the few answers that are left come first."""
        reason = self.job.control.reason_to_leave()
        if reason not in (None, "pause"):
            raise Stopped(reason, step)

    def _missed(self, asked: Asked) -> dict[str, Any] | None:
        question, answer = asked.key, answer_text(self.tokenizer, asked.answer)
        expected = question.expected or ""
        # Some templates trim what they render, so an answer may come without the spaces around it.
        if asked.finish == "stop" and answer.strip() == expected.strip():
            return None
        return {
            "position": question.position,
            "prompt": question.shown,
            "expected": expected,
            "answer": answer,
            "finish": asked.finish,
        }


def verdict_of(score: float | None, threshold: float, *, memorised: bool) -> str:
    """What a score says of the run. A slice that was not memorised in its updates says nothing about the data."""
    if score is None:
        return "ungraded"
    if score >= threshold:
        return "passed"
    return "failed" if memorised else "not_memorised_in_steps"
