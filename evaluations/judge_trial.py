"""A judge tried on a few answers: loaded for one question and gone, on no device."""

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from endpoints.answering import adapter_in, judge_plan
from evaluations.errors import GraderNotReady
from evaluations.graders import Verdict
from evaluations.graders.verdict import unscored
from evaluations.judging import model_named
from evaluations.scoring.judge_words import judge_messages, read_judgement
from evaluations.scoring.terms import Item
from optimize_site.kernel.judges import Appointment, keeper
from optimize_site.kernel.short_jobs import run_short_job
from registry.base_model_queries import get_base_model
from registry.model_queries import get_model

KIND = "trial of a judge"


def tried_judge(grader: str, told: str) -> Appointment:
    """The judge that a `model:` grader names, with no rows to inherit from. Raises what appointing a judge refuses."""
    return keeper().appoint(model_named(grader), instructions=told, dataset_id="", namespace="")


def ask_judge(grader: str, told: str, items: Sequence[Item]) -> list[Verdict]:
    """The judge's verdict on each answer. Raises GraderNotReady, Unavailable, Refused with the job's own reason."""
    judge = tried_judge(grader, told)
    asked = [{"messages": judge_messages(judge.instructions, item.prompt, item.completion, item.calls)}
             for item in items]
    with tempfile.TemporaryDirectory(prefix="optimize-judge-") as folder:
        try:
            adapter = adapter_in(Path(folder) / "adapter", get_model(judge.model_id))
            plan = judge_plan(get_base_model(judge.base_model), adapter=adapter, asked=asked)
        except FileNotFoundError as error:
            raise GraderNotReady(f"The judge {judge.reference} cannot be asked: {error}.",
                                 hint=f"`base-models get {judge.base_model}` says how far it is.") from error
        answers = run_short_job(plan, kind=KIND)["report"]["answers"]
    found = {answer["index"]: _verdict(answer) for answer in answers}
    return [found[index] for index in range(len(items))]


def _verdict(answer: dict[str, Any]) -> Verdict:
    if "cause" in answer:
        return unscored(answer["cause"], answer["detail"])
    return read_judgement(answer["answer"], is_cut=answer["finish"] == "length")
