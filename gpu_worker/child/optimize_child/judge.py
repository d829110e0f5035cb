"""A model held as judge: it answers what it is asked over a Unix socket until it is told to end.

One JSON object a line. In: `{"id": 1, "items": [{"messages": [...]}]}`. Out, a line for each item as soon as it is
answered, in any order: `{"id": 1, "index": 0, "answer": "...", "finish": "stop", "promptTokens": 40,
"completionTokens": 12}`, or `{"id": 1, "index": 0, "cause": "prompt_too_long", "detail": "..."}` for one that cannot be
asked; then `{"id": 1, "done": true}`. A line that is no request is answered `{"id": null, "error": "..."}`.

A plan that states `asked` is a judge for one question: it answers those items and ends, without a socket.
"""

from __future__ import annotations

import contextlib
import json
import select
import selectors
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from peft import PeftModel
from transformers.utils import logging as transformers_logging

from optimize_child.answering.answers import Asked, Limits, answer_all
from optimize_child.bases.models import load_model
from optimize_child.job import Job
from optimize_child.local_socket import listen
from optimize_child.memory import peak_memory
from optimize_child.reading.questions import answer_text, stop_ids
from optimize_child.rendering.template import TemplateRefused
from optimize_child.rendering.tokenizer import load_template, load_tokenizer

POLL_SECONDS = 0.2
BEAT_SECONDS = 60.0
SEND_SECONDS = 30.0
LONGEST_LINE = 64 * 1024 * 1024
READY = "judging"
"""The stage of a judge that answers."""


def run(job: Job) -> None:
    """Load the model, then answer until told to end."""
    transformers_logging.set_verbosity_error()
    transformers_logging.disable_progress_bar()
    torch.set_num_threads(job.plan["threads"])
    job.stage("loading")
    model = JudgeModel(job.plan)
    if job.plan["asked"] is not None:
        job.events.emit("finished", report={"answers": list(model.answers(job.plan["asked"]))}, sync=True)
        return
    Bench(job, model).sit(Path(job.plan["socket"]))


class JudgeModel:
    """The model that judges, and how it is asked."""

    def __init__(self, plan: dict[str, Any]) -> None:
        base = Path(plan["base_model"]["folder"])
        self.plan = plan
        self.tokenizer = load_tokenizer(base)
        self.template = load_template(plan["base_model"], self.tokenizer)
        self.limits = Limits(stop_ids(base, self.tokenizer), plan["max_new_tokens"])
        self.model = load_model(base, device=plan["device"]["kind"]).eval()
        if plan["adapter"]:
            self.model = PeftModel.from_pretrained(self.model, plan["adapter"], local_files_only=True).eval()

    def answers(self, items: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
        """One document an item, each as soon as it is known."""
        prompts: list[Asked] = []
        for index, item in enumerate(items):
            try:
                prompts.append(Asked(index, self._tokens(item["messages"])))
            except TemplateRefused as error:
                yield {"index": index, "cause": "template_refused", "detail": str(error)}
        longest = self.plan["max_prompt_tokens"]
        for asked in prompts:
            if longest is not None and len(asked.prompt) > longest:
                detail = f"The judge was to read {len(asked.prompt)} tokens; it reads at most {longest}."
                yield {"index": asked.key, "cause": "prompt_too_long", "detail": detail}
        askable = [asked for asked in prompts if longest is None or len(asked.prompt) <= longest]
        pad = self.tokenizer.pad_token_id or 0
        # A fixed number of slots: the same question in the same company has the same answer.
        for asked in answer_all(self.model, askable, self.limits, slots=self.plan["batch_size"], pad_token_id=pad):
            yield {
                "index": asked.key,
                "answer": answer_text(self.tokenizer, asked.answer),
                "finish": asked.finish,
                "promptTokens": len(asked.prompt),
                "completionTokens": len(asked.answer),
            }

    def _tokens(self, messages: list[dict[str, Any]]) -> list[int]:
        """The prompt as training renders one; a template without a system role has it in front of the question."""
        try:
            text = self.template.render(messages, to_answer=True)
        except TemplateRefused:
            if messages[0]["role"] != "system" or len(messages) < 2:
                raise
            text = self.template.render(_folded(messages), to_answer=True)
        (tokens,), _ = self.template.tokenize([text])
        return tokens


def _folded(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    system, first, *rest = messages
    return [{**first, "content": f"{system['content']}\n\n{first['content']}"}, *rest]


class Client:
    """One connection, and what was read of its next line."""

    def __init__(self, connection: socket.socket) -> None:
        self.connection = connection
        self.connection.settimeout(SEND_SECONDS)
        self._read = bytearray()

    def lines(self) -> list[bytes] | None:
        """The whole lines that arrived; None where the other end is gone or does not keep to lines."""
        try:
            chunk = self.connection.recv(1 << 20)
        except OSError:
            return None
        self._read += chunk
        if not chunk or len(self._read) > LONGEST_LINE:
            return None
        *whole, rest = self._read.split(b"\n")
        self._read = bytearray(rest)
        return [bytes(line) for line in whole if line.strip()]

    def say(self, body: dict[str, Any]) -> bool:
        """Send one line; False where nobody is there to read it."""
        try:
            self.connection.sendall(json.dumps(body).encode() + b"\n")
        except OSError:
            return False
        return True

    def is_gone(self) -> bool:
        """Whether the other end has hung up: nobody waits for the rest of an answer any more."""
        if not select.select([self.connection], [], [], 0)[0]:
            return False
        try:
            return not self.connection.recv(1, socket.MSG_PEEK)
        except OSError:
            return True


class Bench:
    """The judge at work: one request after the other, in the order they came."""

    def __init__(self, job: Job, model: JudgeModel) -> None:
        self.job, self.model = job, model
        self.answered, self.told = 0, 0.0

    def sit(self, path: Path) -> None:
        """Listen at `path` and answer. Raises Stopped when the control file says so."""
        with contextlib.closing(listen(path)) as server, selectors.DefaultSelector() as ready:
            try:
                ready.register(server, selectors.EVENT_READ)
                self._serve(server, ready)
            finally:
                path.unlink(missing_ok=True)
                self._tell()

    def _serve(self, server: socket.socket, ready: selectors.BaseSelector) -> None:
        while True:
            self._look_up()
            for key, _ in ready.select(POLL_SECONDS):
                if key.fileobj is server:
                    connection, _ = server.accept()
                    ready.register(connection, selectors.EVENT_READ, Client(connection))
                elif not self._attend(key.data):
                    ready.unregister(key.fileobj)
                    key.data.connection.close()

    def _look_up(self) -> None:
        """Between answers: end where that was asked, and say now and then that this judge is there."""
        self.job.leave_if_asked()
        if not self.told or time.monotonic() - self.told >= BEAT_SECONDS:
            self._tell()

    def _tell(self) -> None:
        self.told = time.monotonic()
        memory = peak_memory(self.job.plan["device"]["kind"])["peak_memory_bytes"]
        self.job.events.emit("stage", name=READY, done=self.answered, peak_memory_bytes=memory)

    def _attend(self, client: Client) -> bool:
        """Answer what a client sent; False where it is to be let go."""
        lines = client.lines()
        return lines is not None and all(self._answer(client, line) for line in lines)

    def _answer(self, client: Client, line: bytes) -> bool:
        try:
            number, items = _request(line)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            client.say({"id": None, "error": f"not a request: {error}"})
            return False
        for reply in self.model.answers(items):
            self.answered += 1
            self._look_up()
            if client.is_gone() or not client.say({"id": number, **reply}):
                return False
        return client.say({"id": number, "done": True})


def _request(line: bytes) -> tuple[Any, list[dict[str, Any]]]:
    """The number and the items of a request. Raises ValueError, KeyError, TypeError where it is none."""
    body = json.loads(line)
    items = [{"messages": [_message(message) for message in item["messages"]]} for item in body["items"]]
    if not all(item["messages"] for item in items):
        raise ValueError("an item without messages")
    return body["id"], items


def _message(message: dict[str, Any]) -> dict[str, Any]:
    role, content = message["role"], message["content"]
    if not isinstance(role, str) or not isinstance(content, str):
        raise ValueError("a message has a role and a text")
    return {"role": role, "content": content}
