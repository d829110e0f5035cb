"""The runs that the pages of methods and the examples write out are admitted on a box prepared as those say."""

import io
import re
import shlex

import pytest

from optimize_site.appliance.places import CHECKOUT
from optimize_site.kernel.archives import pack_folder
from optimize_site.kernel.auth import LOCAL
from registry.operations.bundles import push_bundle
from runs.operations import check_run
from tests.factories import make_base_model, make_dataset, make_device, make_workload
from tests.unit.test_documented_descriptors import descriptors

pytestmark = pytest.mark.django_db
EXAMPLES = "catalogs/examples"
WRITTEN = {"docs/preferences.md": ["replies/run.json"], f"{EXAMPLES}/judging/README.md": ["judging/run.json"],
           "docs/reinforcement.md": ["sums/run.json", "sums/gspo.json", "arithmetic-scoring/sums.json"]}
"""For each page the examples that run over what it prepares."""


@pytest.mark.parametrize(("guide", "examples"), WRITTEN.items())
def test_every_run_of_a_page_is_admitted_as_it_is_written(guide, examples):
    make_device("cpu")
    make_base_model("HuggingFaceTB/SmolLM2-135M-Instruct")
    bundle = io.BytesIO()
    pack_folder(CHECKOUT / EXAMPLES / "arithmetic-scoring" / "scoring", bundle)
    push_bundle("gsm8k-scoring", [bundle.getvalue()], actor=LOCAL)
    prepare((CHECKOUT / guide).read_text())
    runs = [run for path in (guide, *(f"{EXAMPLES}/{name}" for name in examples))
            for run in descriptors(CHECKOUT / path) if "warmStartModelId" not in run]
    assert len(runs) >= len(examples)
    for run in runs:
        found = check_run(run, actor=LOCAL)
        assert (found["valid"], found["problems"]) == (True, []), run


def prepare(text):
    """What the page's commands register and create, but for what names a model that was not trained yet."""
    for name, file in re.findall(r"datasets register (\S+) -f (\S+)", text):
        make_dataset(name, (CHECKOUT / file).read_bytes())
    for name, grader in re.findall(r"workloads create (\S+) --dataset \S+ --grader (?!model:)(.+)", text):
        file = re.fullmatch(r'"\$\(cat (\S+)\)"', grader)
        make_workload(name, grader=(CHECKOUT / file[1]).read_text().strip() if file else shlex.split(grader)[0])
