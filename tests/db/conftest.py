"""What holds for every test here that runs a command, and a box that can train."""

import pytest

from optimize_site.kernel.commands import WITHOUT_DOING, NounCommand
from optimize_site.kernel.document_fields import fields_of
from tests.factories import make_base_model, make_dataset, make_device, make_workload


@pytest.fixture(autouse=True)
def no_field_that_was_not_stated(monkeypatch):
    """What a verb shows has only the fields that it says it gives."""
    look, show = NounCommand._listed_fields, NounCommand.show

    def looking(self, method, values):
        gives, waited = method._gives
        is_doing = not any(values.get(flag) for flag in WITHOUT_DOING)
        self._promised = fields_of(*(waited if values.get("wait") else gives)) if is_doing else frozenset()
        return look(self, method, values)

    def showing(self, document, text=None):
        promised = getattr(self, "_promised", frozenset())
        assert not promised or set(document) <= promised, set(document) - promised
        show(self, document, text)

    monkeypatch.setattr(NounCommand, "_listed_fields", looking)
    monkeypatch.setattr(NounCommand, "show", showing)


@pytest.fixture
def ready(db):
    """A device, a workload, a dataset and a base model."""
    make_device()
    make_workload()
    make_dataset()
    make_base_model()
