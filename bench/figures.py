"""What the bars of stored figures share: a run that trains in a scratch database, and the file its job writes."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

NAMES = ("loss", "learning_rate", "grad_norm", "epoch", "tokens", "trained_tokens", "tokens_per_second",
         "step_seconds", "entropy", "mean_token_accuracy")  # fmt: skip


def values_of(step: int) -> dict[str, float]:
    """What a supervised job says of one update."""
    return {name: step * 0.001 + at for at, name in enumerate(NAMES)}


class Stored:
    """A run in training whose job's events the worker's own driver reads and stores."""

    def __init__(self, slot: int = 0) -> None:
        from gpu_worker import claims
        from gpu_worker.drive import Driver
        from gpu_worker.launch import start_job
        from optimize_site.kernel.models import Device
        from runs.operations import advance_run
        from tests.factories import make_base_model, make_device, make_run, put_weights
        from tests.playing import STARTED, say, stage

        if not Device.objects.filter(uuid="cpu").exists():
            make_device()
            put_weights(make_base_model())
        self.run = make_run()
        advance_run(self.run.pk)
        attempt = claims.claim("cpu", slot)
        assert attempt is not None and attempt.holder_id == self.run.pk
        self.attempt = attempt
        say(self.run, self.attempt, STARTED, stage("training", 0, 1))
        self.driver = Driver(self.attempt, should_stop=lambda: False, starter=start_job)
        self.driver.folder.mkdir(parents=True)
        self.path: Path = self.driver.folder / "events.jsonl"
        self.path.touch()

    def write(self, first: int, count: int) -> None:
        """The job trains `count` updates."""
        with self.path.open("a") as file:
            for step in range(first, first + count):
                event: dict[str, Any] = {"v": 1, "t": time.time(), "type": "metrics", "step": step,
                                         "values": values_of(step)}
                file.write(json.dumps(event) + "\n")

    def store(self) -> None:
        """The worker stores all that it has not stored yet."""
        while self.driver.store_events():
            continue

    def forget_offset(self, offset: int) -> None:
        """As if the transaction that moved the offset here had not been seen: what follows is stored again."""
        from optimize_site.kernel.models import Attempt

        Attempt.objects.filter(pk=self.attempt.pk).update(events_offset=offset)
        self.attempt.refresh_from_db()

    def fill(self, count: int) -> None:
        """A history of so many updates, without the way through the job's file."""
        from django.utils import timezone

        from runs.models import Metric

        now = timezone.now()
        rows = (Metric(run=self.run, step=step, attempt=1, values=values_of(step), at=now)
                for step in range(1, count + 1))
        while batch := [row for row, _ in zip(rows, range(5000), strict=False)]:
            Metric.objects.bulk_create(batch)


def bare_insert(run_id: str, first: int, count: int) -> None:
    """The same rows by the shortest way there is: one statement many times, in one transaction."""
    from django.db import connection, transaction

    rows = [(run_id, step, 0, json.dumps(values_of(step))) for step in range(first, first + count)]
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.executemany("INSERT INTO runs_metric (run_id, step, attempt, values, at)"
                           " VALUES (%s, %s, %s, %s, now())", rows)
