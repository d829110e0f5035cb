"""A stand-in for a job process, for tests of the worker: says the given events, then ends as told.

Run as `python fake_job.py ATTEMPT_DIR`; the plan holds {"events": [...], "exit": code, "hold": bool}. With "hold" it
waits until control.json asks it to end, then says `stopped`.
"""

import json
import os
import sys
import time
from pathlib import Path


def started(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19])


def say(folder: Path, event: dict) -> None:
    with (folder / "events.jsonl").open("a") as file:
        file.write(json.dumps({"v": 1, "t": time.time()} | event) + "\n")


def hold(folder: Path) -> None:
    while not json.loads((folder / "control.json").read_text())["ask"]:
        time.sleep(0.02)
    say(folder, {"type": "stopped", "reason": "asked", "step": 1})


def main() -> None:
    folder = Path(sys.argv[1])
    plan = json.loads((folder / "plan.json").read_text())
    me = {"pid": os.getpid(), "started": started(os.getpid())}
    (folder / "pid.json").write_text(json.dumps({"shepherd": me, "job": me}))
    for event in plan.get("events", []):
        say(folder, event)
    if plan.get("hold"):
        hold(folder)
    (folder / "exit.json").write_text(json.dumps({"code": plan.get("exit", 0), "signal": None, "oom_kill": False}))
    os._exit(plan.get("exit", 0))


if __name__ == "__main__":
    main()
