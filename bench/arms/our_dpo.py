"""Our job over preference pairs, held before each update; an update also carries its share of reading the reference."""

import json
import sys
import time
from pathlib import Path

import gate
from optimize_child import job
from optimize_child.dpo import PreferenceRun
from optimize_child.pairs.trainer import PreferenceTrainer


def main(attempt: Path) -> None:
    held = gate.Gate()
    train, log, read = PreferenceTrainer.train, PreferenceTrainer.log, PreferenceRun._read_reference

    def gated_train(self, *args, **kwargs):
        self.add_callback(held)
        return train(self, *args, **kwargs)

    def noted_log(self, logs, *rest):
        held.note(logs)
        return log(self, logs, *rest)

    def timed_read(self, trainer):
        wall, processor = time.perf_counter(), time.process_time()
        read(self, trainer)
        spent = time.perf_counter() - wall, time.process_time() - processor
        held.share = tuple(part / self.total_steps for part in spent)

    PreferenceTrainer.train, PreferenceTrainer.log = gated_train, noted_log
    PreferenceRun._read_reference = timed_read
    sys.exit(job.main(attempt))


if __name__ == "__main__":
    main(Path(json.loads(sys.argv[1])["attempt"]))
