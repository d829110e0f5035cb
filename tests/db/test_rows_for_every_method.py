"""An invalid row is refused where it enters, so no method can train around it."""

import pytest

from datasets.models import ExampleSet
from optimize_site.kernel.errors import OperationError
from tests.factories import chat_rows, make_dataset, make_workload

pytestmark = pytest.mark.django_db
BAD = b'{"messages":[{"role":"user","content":"no answer follows"}]}\n'


@pytest.mark.requirement("R241")
def test_a_file_with_an_invalid_chat_row_is_refused_whole_and_its_line_is_named():
    """Reinforcement reads the same registered rows, so it meets no invalid one to leave out."""
    make_workload("triage")
    with pytest.raises(OperationError) as info:
        make_dataset("triage/prompts", chat_rows(3) + BAD)
    assert any("line 4" in problem.path for problem in info.value.problems)
    assert not ExampleSet.objects.exists()
