"""A workload with an evaluation dataset, its base model and an adapter; who asks over HTTP."""

import pytest
from django.test import Client

from optimize_site.kernel.auth import LOCAL_SECRET
from tests.db.evaluations.evaluating import EVAL, TEMPLATE
from tests.factories import make_adapter, make_base_model, make_dataset, make_device, make_workload, put_weights


@pytest.fixture
def base():
    make_device()
    return put_weights(make_base_model(facts={"contextLength": 4096, "chatTemplateSha256": TEMPLATE}))


@pytest.fixture
def workload(base):
    make_dataset("triage/eval", EVAL)
    return make_workload(dataset="eval")


@pytest.fixture
def adapter(workload, base):
    return make_adapter(workload, base, chatTemplateSha256=TEMPLATE)


@pytest.fixture
def client():
    return Client(headers={"Authorization": f"Bearer {LOCAL_SECRET}"})


@pytest.fixture
def later(workload):
    """A base model that somebody selected and that is prepared for the first time."""
    return make_base_model("acme/later", phase="FETCHING", lease_token=1)
