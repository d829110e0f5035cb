"""Our job, whole: its plan, its events, its checks; held before each update so that the bar can take turns."""

import json
import sys
from pathlib import Path

import gate
from optimize_child import job
from optimize_child.training.trainer import SupervisedTrainer


def main(attempt: Path) -> None:
    held = gate.Gate()
    train, log = SupervisedTrainer.train, SupervisedTrainer.log

    def gated_train(self, *args, **kwargs):
        self.add_callback(held)
        return train(self, *args, **kwargs)

    def noted_log(self, logs, *rest):
        held.note(logs)
        return log(self, logs, *rest)

    SupervisedTrainer.train, SupervisedTrainer.log = gated_train, noted_log
    sys.exit(job.main(attempt))


if __name__ == "__main__":
    main(Path(json.loads(sys.argv[1])["attempt"]))
