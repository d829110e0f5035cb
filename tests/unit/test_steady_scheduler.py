"""The timer of the reconciler goes by a clock that nobody sets."""

import pytest
from celery import Celery

from optimize_site.appliance import celery_hooks


@pytest.mark.requirement("R016")
def test_it_rings_every_five_seconds_and_never_asks_the_wall_clock(monkeypatch):
    app = Celery("tests", broker="memory://")
    app.conf.beat_schedule = {"reconcile": {"task": "look", "schedule": 5.0}}
    scheduler = celery_hooks.SteadyScheduler(app, lazy=True)
    scheduler.setup_schedule()
    sent, moments = [], iter([100.0, 104.0, 105.0, 112.0])
    monkeypatch.setattr(app, "now", None)
    monkeypatch.setattr(celery_hooks.time, "monotonic", lambda: next(moments))
    monkeypatch.setattr(celery_hooks.SteadyScheduler, "producer", None)
    monkeypatch.setattr(scheduler, "apply_entry", lambda entry, producer=None: sent.append(entry.task))
    assert [(scheduler.tick(), len(sent)) for _ in range(4)] == [(5.0, 0), (1.0, 0), (5.0, 1), (5.0, 2)]
