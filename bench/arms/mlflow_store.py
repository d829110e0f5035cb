"""MLflow's side of the bar of stored figures: one batch of metrics at each word."""

import json
import logging
import os
import sys
import time
from itertools import count

os.environ["MLFLOW_DISABLE_TELEMETRY"] = "true"

import gate
from mlflow.entities import Metric, ViewType
from mlflow.store.tracking.sqlalchemy_store import SqlAlchemyStore


def main(settings: dict) -> None:
    logging.disable(logging.CRITICAL)
    store = SqlAlchemyStore(settings["database"], "/tmp/mlflow-artifacts")
    experiment = store.search_experiments(ViewType.ACTIVE_ONLY)[0].experiment_id
    run = store.create_run(experiment, "bench", int(time.time() * 1000), [], "bench").info.run_id
    gate.reply(ready=True)
    updates = settings["batch"] // len(settings["names"])
    for turn in count():
        gate.await_word()
        now = int(time.time() * 1000)
        batch = [Metric(name, step * 0.001 + at, now, step) for step in range(turn * updates, (turn + 1) * updates)
                 for at, name in enumerate(settings["names"])]
        started = time.perf_counter()
        store.log_batch(run, batch, [], [])
        gate.reply(seconds=time.perf_counter() - started)


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
