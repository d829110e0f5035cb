"""MLflow's side of the bar of stored figures: one batch of metrics at each word. Its environment holds no trainer."""

import json
import logging
import os
import sys
import time
from itertools import count

os.environ["MLFLOW_DISABLE_TELEMETRY"] = "true"
# Whatever a library prints must not stand between the replies.
REPLIES = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)


def main(settings: dict) -> None:
    from mlflow.entities import Metric, ViewType
    from mlflow.store.tracking.sqlalchemy_store import SqlAlchemyStore

    logging.disable(logging.CRITICAL)
    store = SqlAlchemyStore(settings["database"], "/tmp/mlflow-artifacts")
    experiment = store.search_experiments(ViewType.ACTIVE_ONLY)[0].experiment_id
    run = store.create_run(experiment, "bench", int(time.time() * 1000), [], "bench").info.run_id
    reply(ready=True)
    updates = settings["batch"] // len(settings["names"])
    for turn in count():
        if not sys.stdin.readline():
            return
        now = int(time.time() * 1000)
        batch = [Metric(name, step * 0.001 + at, now, step) for step in range(turn * updates, (turn + 1) * updates)
                 for at, name in enumerate(settings["names"])]
        started = time.perf_counter()
        store.log_batch(run, batch, [], [])
        reply(seconds=time.perf_counter() - started)


def reply(**values) -> None:
    print(json.dumps(values), file=REPLIES, flush=True)


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
