"""The kind of work that answers the rows of a dataset and has the answers scored: an evaluation."""

from typing import Any

from django.db.models import Q, QuerySet

from datasets.queries import dataset_files
from endpoints.answering import BASE, CANDIDATE, AnsweringWork, adapter_folder, answering_plan
from evaluations import phases
from evaluations.judging import gradable
from evaluations.models import Evaluation
from evaluations.operations.recording import ask_grader, finish, record_answer, record_score
from evaluations.scorers import scoring_plan
from optimize_site.kernel.auth import SYSTEM
from optimize_site.kernel.models import Attempt, Device
from optimize_site.kernel.phases import move
from optimize_site.kernel.work import takes_host_work
from registry.base_model_queries import get_base_model
from registry.model_queries import serving_of


class EvaluationWork(AnsweringWork):
    """Answers the rows of a dataset that are not answered yet, on a device. What a grader that is no rule has to say is
    asked afterwards by a job of its own, which needs no device."""

    kind, table, rows = "evaluation", phases.EVALUATION, Evaluation

    def waiting(self, device: Device) -> QuerySet[Evaluation]:
        asked = Q(phase=phases.AWAITING_CAPACITY) if device.kind != Device.HOST else Q(pk__in=())
        scored = gradable() & Q(phase=phases.AWAITING_GRADER) if takes_host_work(device) else Q(pk__in=())
        return Evaluation.objects.filter(asked | scored).order_by("queued_at")

    def start(self, row: Evaluation, attempt: Attempt) -> None:
        if row.phase != phases.AWAITING_GRADER:
            super().start(row, attempt)
            return
        move(row, phases.SCORING, phases=self.table, actor=SYSTEM, lease_token=attempt.lease.token,
             num_attempts=attempt.number, stage={})

    def plan(self, row: Evaluation, attempt: Attempt) -> dict[str, Any]:
        if row.phase == phases.SCORING:
            return scoring_plan(row, attempt)
        state = get_base_model(row.base_model)
        assert row.model is not None  # noqa: S101 - the database holds it for every evaluation that runs
        name = BASE if serving_of(row.model).is_base else CANDIDATE
        systems = [{"name": name, "adapter": adapter_folder(row.model, attempt)}]
        return answering_plan(state, row.settings, systems=systems, files=dataset_files(row.dataset),
                              skip=list(row.predictions.order_by("position").values_list("position", flat=True)))

    def on_event(self, row: Evaluation, attempt: Attempt, event: dict[str, Any]) -> None:
        if event["type"] == "scored":
            record_score(row, event)
        elif row.phase != phases.SCORING or event["type"] != "started":
            super().on_event(row, attempt, event)

    def on_answer(self, row: Evaluation, event: dict[str, Any]) -> None:
        record_answer(row, event)

    def complete(self, row: Evaluation) -> None:
        if row.num_answered < row.num_rows:
            self.fail(row, "answers_missing", f"The job answered {row.num_answered} of {row.num_rows} rows and ended.",
                      f"`evaluations retry {row.pk[:12]}` answers the rest.")
        elif not row.predictions.unjudged().exists():
            finish(row, actor=SYSTEM)
        elif row.phase == phases.SCORING:
            self.fail(row, "scores_missing", "The job ended before the grader was asked for every answer.",
                      f"`evaluations retry {row.pk[:12]}` asks for the rest.")
        else:
            ask_grader(row)

    def line_up(self, row: Evaluation) -> None:
        if row.phase == phases.SCORING:
            ask_grader(row, queued_at=row.queued_at)
        else:
            super().line_up(row)

    def count_device_seconds(self, row: Evaluation, attempt: Attempt) -> None:
        """Scoring holds no device."""
        if row.phase != phases.SCORING:
            super().count_device_seconds(row, attempt)


KINDS = (EvaluationWork(),)
