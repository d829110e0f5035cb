"""The kind of work that answers the rows of a dataset: an evaluation."""

from typing import Any

from datasets.queries import dataset_files
from endpoints.answering import BASE, CANDIDATE, AnsweringWork, adapter_folder, answering_plan
from evaluations import phases
from evaluations.models import Evaluation
from evaluations.operations.recording import finish, record_answer
from optimize_site.kernel.auth import SYSTEM
from optimize_site.kernel.models import Attempt
from registry.base_model_queries import get_base_model
from registry.model_queries import serving_of


class EvaluationWork(AnsweringWork):
    """Answers the rows of a dataset that are not answered yet."""

    kind, table, rows = "evaluation", phases.EVALUATION, Evaluation

    def plan(self, row: Evaluation, attempt: Attempt) -> dict[str, Any]:
        state = get_base_model(row.base_model)
        assert row.model is not None  # noqa: S101 - the database holds it for every evaluation that runs
        name = BASE if serving_of(row.model).is_base else CANDIDATE
        systems = [{"name": name, "adapter": adapter_folder(row.model, attempt)}]
        return answering_plan(state, row.settings, systems=systems, files=dataset_files(row.dataset),
                              skip=list(row.predictions.order_by("position").values_list("position", flat=True)))

    def on_answer(self, row: Evaluation, event: dict[str, Any]) -> None:
        record_answer(row, event)

    def complete(self, row: Evaluation) -> None:
        if row.num_answered < row.num_rows:
            self.fail(row, "answers_missing", f"The job answered {row.num_answered} of {row.num_rows} rows and ended.",
                      f"`evaluations retry {row.pk[:12]}` answers the rest.")
            return
        finish(row, actor=SYSTEM)


KINDS = (EvaluationWork(),)
