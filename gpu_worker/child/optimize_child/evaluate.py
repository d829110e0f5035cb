"""Answering rows: an evaluation's dataset with one system, or one input with several systems side by side."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from peft import PeftModel
from transformers.utils import logging as transformers_logging

from optimize_child.answering.answers import Limits, answer_all
from optimize_child.bases.models import load_model
from optimize_child.job import Job
from optimize_child.reading.lines import Line, read_lines
from optimize_child.reading.question_rows import Prompts, QuestionRows
from optimize_child.reading.questions import answer_text, question_of, stop_ids
from optimize_child.reading.refusals import RefusedRows, refuse_rows
from optimize_child.reading.rows import LineRefused, check_row, has_images, read_row, told
from optimize_child.rendering.template import TemplateRefused
from optimize_child.rendering.tokenizer import load_template, load_tokenizer

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
        self.inline = [_with_answer(row) for row in job.plan["rows"].get("inline") or []]
        self.device = job.plan["device"]["kind"]
        self.answered = 0

    def run(self) -> None:
        self.job.stage("reading")
        self.tokenizer = load_tokenizer(self.base)
        self.template = load_template(self.plan["base_model"], self.tokenizer)
        self.questions = self._questions()
        self.total = len(self.questions) * len(self.plan["systems"])
        for system in self.plan["systems"]:
            for at in range(len(self.questions)):
                if not self._fits(at):
                    self._emit(at, system["name"], None, "prompt_too_long")
        prompts = Prompts(self.questions, [at for at in range(len(self.questions)) if self._fits(at)])
        if len(prompts):
            self._ask(prompts)
        self.job.events.emit("finished", answers=self.answered, sync=True)

    # -- rows --------------------------------------------------------------------------------------------------------

    def _questions(self) -> QuestionRows:
        """The rows to ask, each rendered as training renders it. A row that cannot be asked refuses the whole."""
        skipped = set(self.plan["skip_positions"])
        found, refused = QuestionRows(self.inline, self.job.folder), RefusedRows()
        for line, row in self._rows(refused):
            if line.position in skipped:
                continue
            try:
                found.add(line, question_of(self.template, line.position, row).tokens)
            except TemplateRefused as error:
                refused.add(line.place, f"the chat template refuses the prompt: {error}")
        refuse_rows(refused, "cannot be asked", "Correct or remove these rows and register the dataset again.")
        return found

    def _rows(self, refused: RefusedRows) -> Iterator[tuple[Line, dict[str, Any]]]:
        if self.inline:
            for position, row in enumerate(self.inline):
                yield Line(f"input {position + 1}", position, b""), row
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

    def _fits(self, at: int) -> bool:
        longest = self.plan.get("max_prompt_tokens")
        return longest is None or self.questions.tokens.length(at) <= longest

    # -- systems -----------------------------------------------------------------------------------------------------

    def _ask(self, prompts: Prompts) -> None:
        self.job.stage("loading")
        model = load_model(self.base, device=self.device).eval()
        limits = Limits(stop_ids(self.base, self.tokenizer), self.plan["max_new_tokens"])
        # Merging changes the weights in place, so the systems that need them as they are go first.
        systems = sorted(self.plan["systems"], key=lambda system: system.get("adapter") is not None)
        for system in systems:
            with_adapter = self._with_adapter(model, system, prompts, last=system is systems[-1])
            self.job.stage("evaluating", self.answered, self.total)
            self._answer(with_adapter, system["name"], prompts, limits)
            if system is not systems[-1] and with_adapter is not model:
                with_adapter.unload()

    def _with_adapter(self, model: Any, system: dict[str, Any], prompts: Prompts, *, last: bool) -> Any:
        """The model as this system answers: bare, with the adapter beside it, or with the adapter merged."""
        if not system.get("adapter"):
            return model
        adapted = PeftModel.from_pretrained(model, system["adapter"], local_files_only=True).eval()
        if not last or not self.plan.get("merge", True) or len(prompts) < PARITY_ROWS:
            return adapted
        return self._merge(adapted, prompts)

    def _merge(self, adapted: PeftModel, prompts: Prompts) -> Any:
        """Merge the adapter for speed, and see on five rows that the answers begin alike; else answer unmerged."""
        started = time.perf_counter()
        rows = [prompts[at].prompt for at in range(0, len(prompts), max(1, len(prompts) // PARITY_ROWS))[:PARITY_ROWS]]
        beside = [_next_logits(adapted, tokens) for tokens in rows]
        adapted.merge_adapter()
        merged = [_next_logits(adapted, tokens) for tokens in rows]
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

    def _answer(self, model: Any, name: str, prompts: Prompts, limits: Limits) -> None:
        pad = self.tokenizer.pad_token_id or 0
        for asked in answer_all(model, prompts, limits, slots=self.plan.get("batch_size"), pad_token_id=pad):
            self._emit(asked.key, name, asked.answer, asked.finish)
            self.job.leave_if_asked()

    def _emit(self, at: int, system: str, answer: list[int] | None, finish: str | None) -> None:
        question = self.questions.question(at)
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
        return told(problems)
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
