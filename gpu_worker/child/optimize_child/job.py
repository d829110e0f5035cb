"""The job itself: reads the plan, runs its entry, and turns whatever happens into a last event and an exit status."""

from __future__ import annotations

import json
import os
import sys
import traceback
from importlib import import_module, metadata
from pathlib import Path
from typing import Any

from optimize_child.control import UNWATCHED_SECONDS, Control
from optimize_child.events import EventLog
from optimize_child.failures import Stopped, failure_from
from optimize_child.stacks import let_stacks_be_read

ENTRIES = {
    "sft": "optimize_child.sft",
    "dpo": "optimize_child.dpo",
    "grpo": "optimize_child.rl",
    "gspo": "optimize_child.rl",
    "evaluate": "optimize_child.evaluate",
    "judge": "optimize_child.judge",
    "score": "optimize_child.score",
    "prepare": "optimize_child.prepare",
    "analyse": "optimize_child.analyse",
    "preview": "optimize_child.preview",
    "replay": "optimize_child.replay",
}
SPARE_BYTES = 32 * 1024
"""Kept free of a disk that fills up, for what the job and its shepherd have to say of it."""
VERSIONED = ("torch", "transformers", "trl", "peft")


class Job:
    """What every entry is given: its plan, its folder, its voice and its control file."""

    def __init__(self, attempt: Path) -> None:
        self.folder = attempt
        self.plan: dict[str, Any] = json.loads((attempt / "plan.json").read_bytes())
        self.events = EventLog(attempt / "events.jsonl")
        seconds = self.plan.get("unwatched_seconds", UNWATCHED_SECONDS)
        self.control = Control(attempt / "control.json", unwatched_seconds=seconds)
        self._spare = attempt / "spare"
        self._spare.write_bytes(bytes(SPARE_BYTES))

    def stage(self, name: str, done: int | None = None, total: int | None = None) -> None:
        """Say what the job is doing, and how far it is."""
        counts = {} if done is None else {"done": done, "total": total}
        self.events.emit("stage", name=name, **counts)

    def give_up_spare(self) -> None:
        """Let go of the room that was kept for the job's last words."""
        self._spare.unlink(missing_ok=True)

    def leave_if_asked(self) -> None:
        """Raise Stopped when the control file says so: for the work before and after training."""
        reason = self.control.reason_to_leave()
        if reason:
            raise Stopped(reason)


def main(attempt: Path) -> int:
    """Run the plan of one attempt. 0: finished or stopped as asked. 1: failed, and the failure event says why."""
    job = Job(attempt)
    let_stacks_be_read()
    set_up_process(job.plan)
    try:
        job.events.emit("started", pid=os.getpid(), versions=versions(), prepared="OPTIMIZE_PREPARED" in os.environ)
        import_module(ENTRIES[job.plan["entry"]]).run(job)
    except Stopped as stopped:
        step = {} if stopped.step is None else {"step": stopped.step}
        job.events.emit("stopped", reason=stopped.reason, sync=True, **step)
    except Exception as error:
        traceback.print_exc()
        report(job, error)
        return 1
    finally:
        job.give_up_spare()
    return 0


def report(job: Job, error: Exception) -> None:
    """The last event of a job that failed."""
    job.give_up_spare()
    failure = failure_from(error)
    job.events.emit(
        "failure",
        code=failure.code,
        reason=failure.reason,
        hint=failure.hint,
        evidence=json.loads(json.dumps(failure.evidence, default=str)),
        sync=True,
    )


def set_up_process(plan: dict[str, Any]) -> None:
    """Threads, the allocator and quiet libraries, before anything is computed."""
    threads = str(plan["threads"])
    os.environ.update(OMP_NUM_THREADS=threads, MKL_NUM_THREADS=threads, TOKENIZERS_PARALLELISM="false")
    os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")
    os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")
    if plan["device"]["kind"] == "cuda":
        os.environ["CUDA_VISIBLE_DEVICES"] = ",".join(plan["device"]["uuids"])
        if "PYTORCH_ALLOC_CONF" not in os.environ:
            os.environ.setdefault("PYTORCH_CUDA_ALLOC_CONF", "expandable_segments:True")
    else:
        os.environ["CUDA_VISIBLE_DEVICES"] = ""


def versions() -> dict[str, str]:
    """The libraries this job runs on."""
    return {"python": sys.version.split()[0], **{name: metadata.version(name) for name in VERSIONED}}


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
