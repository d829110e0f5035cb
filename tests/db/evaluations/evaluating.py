"""Evaluations of four tickets, as these tests start them, and what a job says of them."""

import json

from evaluations.operations.evaluations import Request, start_evaluation
from gpu_worker.engines.plans import complete
from optimize_site.kernel.auth import LOCAL
from registry.models import BaseModel

ROUTE, TEMPLATE = "/v1/training/evaluations", "t" * 64


def rows(*answers, tools=None):
    return b"".join(json.dumps({"messages": [{"role": "user", "content": f"ticket {number}"},
                                             {"role": "assistant", "content": answer}],
                                **({"tools": tools} if tools else {})}).encode() + b"\n"
                    for number, answer in enumerate(answers))


def label(queue, urgency="low"):
    return json.dumps({"queue": queue, "urgency": urgency})


EVAL = rows(label("billing"), label("cards"), label("billing", "high"), "no labels here")


def start(**stated):
    return start_evaluation(Request(**({"model": "triage/tiny"} | stated)), actor=LOCAL).evaluation


def plan_is_complete(plan, attempt):
    """Whether the job would take the plan."""
    return complete(plan, attempt=attempt.pk, subject={"kind": attempt.holder_kind, "id": attempt.holder_id}, threads=1,
                    device={"kind": "cpu", "uuids": []})


def said(position, answer, expected=None, **changes):
    expected = expected or json.loads(EVAL.splitlines()[position])["messages"][-1]["content"]
    return {"type": "answer", "position": position, "system": "candidate", "expected": expected, "answer": answer,
            "prompt": [{"role": "user", "content": f"ticket {position}"}], "prompt_tokens": 10, "completion_tokens": 5,
            "chat_template_sha256": TEMPLATE, "base_model_revision": "rev-1", "finish": "stop"} | changes


ANSWERS = [said(0, label("billing")), said(1, label("billing")), said(2, "none"), said(3, label("cards"))]
FINISHED = {"type": "finished", "answers": 4}


def prepare(base_model):
    """What the end of a preparation does."""
    from registry.work import BaseModelWork

    base_model.refresh_from_db()
    BaseModel.objects.filter(pk=base_model.pk).update(revision="rev-9", folder="base-models/later",
                                                      facts={"contextLength": 4096, "chatTemplateSha256": TEMPLATE})
    base_model.refresh_from_db()
    BaseModelWork()._is_ready(base_model)
