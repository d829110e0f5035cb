"""Answering rows: an evaluation's dataset with one system, or one input with several systems side by side."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from peft import PeftModel
from transformers.utils import logging as transformers_logging

from optimize_child.answers import Asked, Limits, answer_all
from optimize_child.job import Job
from optimize_child.lines import Line, read_lines
from optimize_child.models import load_model
from optimize_child.questions import Question, answer_text, question_of, stop_ids
from optimize_child.refusals import RefusedRows, refuse_rows
from optimize_child.rows import LineRefused, check_row, has_images, read_row
from optimize_child.template import TemplateRefused
from optimize_child.tokenizer import load_template, load_tokenizer

PARITY_ROWS = 5
# The largest difference of a logit, relative to the largest logit: fp32 rounding, or bf16's on a GPU.
PARITY_BOUND = {"cpu": 1e-4, "cuda": 3e-2}


def run(job: Job) -> None:
    """Ask every system every row that is not skipped; each answer is an event as soon as it is known."""
    transformers_logging.set_verbosity_error()
    transformers_logging.disable_progress_bar()
    torch.set_num_threads(job.plan["threads"])
    Evaluation(job).run()


class Evaluation:
    """One attempt at answering."""

    def __init__(self, job: Job) -> None:
        self.job, self.plan = job, job.plan
        self.base = Path(job.plan["base_model"]["folder"])
        self.device = job.plan["device"]["kind"]
        self.answered = 0

    def run(self) -> None:
        self.job.stage("reading")
        self.tokenizer = load_tokenizer(self.base)
        self.template = load_template(self.plan["base_model"], self.tokenizer)
        questions = self._questions()
        self.total = len(questions) * len(self.plan["systems"])
        askable = [question for question in questions if self._fits(question)]
        for system in self.plan["systems"]:
            for question in questions:
                if not self._fits(question):
                    self._emit(question, system["name"], None, "prompt_too_long")
        if askable:
            self._ask(askable)
        self.job.events.emit("finished", answers=self.answered, sync=True)

    # -- rows --------------------------------------------------------------------------------------------------------

    def _questions(self) -> list[Question]:
        """The rows to ask, each rendered as training renders it. A row that cannot be asked refuses the whole."""
        skipped = set(self.plan["skip_positions"])
        found: list[Question] = []
        refused = RefusedRows()
        for line, row in self._rows(refused):
            if line.position in skipped:
                continue
            try:
                found.append(question_of(self.template, line.position, row))
            except TemplateRefused as error:
                refused.add(line.place, f"the chat template refuses the prompt: {error}")
        refuse_rows(refused, "cannot be asked", "Correct or remove these rows and register the dataset again.")
        return found

    def _rows(self, refused: RefusedRows) -> Iterator[tuple[Line, dict[str, Any]]]:
        if self.plan["rows"].get("inline"):
            for position, row in enumerate(self.plan["rows"]["inline"]):
                yield Line(f"input {position + 1}", position, b""), _with_answer(row)
            return
        for line in read_lines(Path(file) for file in self.plan["rows"]["files"]):
            try:
                row = read_row(line.data)
            except LineRefused as error:
                refused.add(line.place, str(error))
                continue
            reason = _why_not(row)
            if reason:
                refused.add(line.place, reason)
            else:
                yield line, row
            if line.position % 500 == 0:
                self.job.leave_if_asked()

    def _fits(self, question: Question) -> bool:
        longest = self.plan.get("max_prompt_tokens")
        return longest is None or len(question.tokens) <= longest

    # -- systems -----------------------------------------------------------------------------------------------------

    def _ask(self, questions: list[Question]) -> None:
        self.job.stage("loading")
        model = load_model(self.base, device=self.device).eval()
        limits = Limits(stop_ids(self.base, self.tokenizer), self.plan["max_new_tokens"])
        # Merging changes the weights in place, so the systems that need them as they are go first.
        systems = sorted(self.plan["systems"], key=lambda system: system.get("adapter") is not None)
        for system in systems:
            with_adapter = self._with_adapter(model, system, questions, last=system is systems[-1])
            self.job.stage("evaluating", self.answered, self.total)
            self._answer(with_adapter, system["name"], questions, limits)
            if system is not systems[-1] and with_adapter is not model:
                with_adapter.unload()

    def _with_adapter(self, model: Any, system: dict[str, Any], questions: list[Question], *, last: bool) -> Any:
        """The model as this system answers: bare, with the adapter beside it, or with the adapter merged."""
        if not system.get("adapter"):
            return model
        adapted = PeftModel.from_pretrained(model, system["adapter"], local_files_only=True).eval()
        if not last or not self.plan.get("merge", True) or len(questions) < PARITY_ROWS:
            return adapted
        return self._merge(adapted, questions)

    def _merge(self, adapted: PeftModel, questions: list[Question]) -> Any:
        """Merge the adapter for speed, and see on five rows that the answers begin alike; else answer unmerged."""
        started = time.perf_counter()
        rows = questions[:: max(1, len(questions) // PARITY_ROWS)][:PARITY_ROWS]
        beside = [_next_logits(adapted, question.tokens) for question in rows]
        adapted.merge_adapter()
        merged = [_next_logits(adapted, question.tokens) for question in rows]
        value = max(float((a - b).abs().max() / a.abs().max()) for a, b in zip(beside, merged, strict=True))
        same = all(int(a.argmax()) == int(b.argmax()) for a, b in zip(beside, merged, strict=True))
        bound = PARITY_BOUND[self.device]
        passed = value <= bound and same
        self.job.events.emit(
            "check",
            name="merge_parity",
            passed=passed,
            value=value,
            bound=bound,
            seconds=round(time.perf_counter() - started, 3),
            detail=f"{len(rows)} rows, first token {'equal' if same else 'different'}",
        )
        if passed:
            return adapted.merge_and_unload()
        return self._reload(adapted)

    def _reload(self, adapted: PeftModel) -> Any:
        """Fresh weights: taking a merge back by subtraction would leave its rounding behind."""
        self.job.events.emit(
            "warning", code="answers_unmerged", message="The merged adapter answered differently; it stays unmerged."
        )
        folder = next(system["adapter"] for system in self.plan["systems"] if system.get("adapter"))
        del adapted
        model = load_model(self.base, device=self.device).eval()
        return PeftModel.from_pretrained(model, folder, local_files_only=True).eval()

    # -- answers -----------------------------------------------------------------------------------------------------

    def _answer(self, model: Any, name: str, questions: list[Question], limits: Limits) -> None:
        prompts = [Asked(question, question.tokens) for question in questions]
        pad = self.tokenizer.pad_token_id or 0
        for asked in answer_all(model, prompts, limits, slots=self.plan.get("batch_size"), pad_token_id=pad):
            self._emit(asked.key, name, asked.answer, asked.finish)
            self.job.leave_if_asked()

    def _emit(self, question: Question, system: str, answer: list[int] | None, finish: str | None) -> None:
        text = None if answer is None else answer_text(self.tokenizer, answer)
        tools = {"tools": question.tools} if question.tools else {}
        self.job.events.emit(
            "answer",
            position=question.position,
            system=system,
            prompt=question.shown,
            expected=question.expected,
            answer=text,
            prompt_tokens=len(question.tokens),
            completion_tokens=len(answer or []),
            chat_template_sha256=self.template.sha256,
            base_model_revision=self.plan["base_model"]["revision"],
            finish=finish,
            **tools,
        )
        self.answered += 1
        if self.answered % 10 == 0:
            self.job.stage("evaluating", self.answered, self.total)


def _why_not(row: dict[str, Any]) -> str | None:
    """Why a row cannot be asked and compared; None when it can."""
    problems = check_row(row)
    if problems:
        return "; ".join(f"{problem.path}: {problem.message}" for problem in problems)
    if has_images(row):
        return "the row has images, and this evaluation reads text"
    if row["messages"][-1].get("tool_calls"):
        return "the row's answer calls tools, and an evaluation compares text"
    return None


def _with_answer(row: dict[str, Any]) -> dict[str, Any]:
    """An input that ends with a question is asked as it is; one that ends with an answer is compared with it."""
    if row["messages"][-1]["role"] == "assistant":
        return row
    return {**row, "messages": [*row["messages"], {"role": "assistant", "content": ""}], "unanswered": True}


def _next_logits(model: Any, tokens: list[int]) -> torch.Tensor:
    """The logits of the token after a prompt, by the model's own attention."""
    with torch.inference_mode():
        ids = torch.tensor([tokens], device=model.device)
        return model(input_ids=ids, use_cache=False, logits_to_keep=1).logits[0, -1].float()
