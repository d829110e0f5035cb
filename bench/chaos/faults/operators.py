"""What operators do at an odd moment: pause, resume twice at once, rest where the plan says, cancel."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

from bench.chaos.scene import Scene
from bench.chaos.schedule import STEPS, Fault
from tests.e2e import running
from tests.e2e.conftest import wait_until

ENDING_SECONDS = 600.0
BESIDE = ThreadPoolExecutor(4, thread_name_prefix="beside")


def pause(scene: Scene, fault: Fault, checkpoint: str) -> bool:
    """Pause, wait for the rest, and let two people resume at once."""
    if scene.ask(f"{scene.path}/pause", {"checkpoint": checkpoint}) is None:
        return False
    _resume_twice(scene, _rested(scene))
    return True


def pause_by_plan(scene: Scene, fault: Fault) -> bool:
    """The run's own descriptor has it rest at this update; two people resume it at once."""
    run = _rested(scene)
    _resume_twice(scene, run)
    return run["phase"] == "PAUSED" and run["pauseAtStep"] == fault.step


def _rested(scene: Scene) -> Any:
    """The run once it rests, or is over."""
    return scene.http.follow(scene.path, "phase", {"PAUSED", *running.OVER})


def _resume_twice(scene: Scene, run: Any) -> None:
    if run["phase"] == "PAUSED":
        assert run["pause"]["resourcesReleased"], run["pause"]
        with ThreadPoolExecutor(2) as pool:
            list(pool.map(lambda _: scene.ask(f"{scene.path}/resume", {}), range(2)))


def cancel(scene: Scene, fault: Fault, *, as_it_ends: bool = False) -> bool:
    """Another run, cancelled when it has got somewhere, or in a race with its end."""
    run_id = scene.another()
    scene.cancelled.append(run_id)
    if as_it_ends:
        scene.aside.append(BESIDE.submit(_race, scene, run_id, fault.lasts * 0.2))
        return True
    time.sleep(fault.lasts * 2)
    return scene.ask(f"/v1/training/runs/{run_id}/cancel", {}) is not None


def _race(scene: Scene, run_id: str, after: float) -> None:
    """Cancel a run as it ends: it completes, or it is cancelled."""
    wait_until(lambda: _is_ending(scene, run_id), ENDING_SECONDS, "the end of the run that is to be cancelled", 0.15)
    time.sleep(after)
    scene.ask(f"/v1/training/runs/{run_id}/cancel", {})


def _is_ending(scene: Scene, run_id: str) -> bool:
    run = running.run_of(scene.http, run_id)
    return run["phase"] in running.OVER or (run["observedStep"] or 0) >= STEPS - 1


OF_A_JOB: dict[str, Callable[[Scene, Fault], bool]] = {
    "pause and save": partial(pause, checkpoint="save"),
    "pause at the latest": partial(pause, checkpoint="latest"),
    "pause where its plan says": pause_by_plan,
}
OF_THE_BOX: dict[str, Callable[[Scene, Fault], bool]] = {
    "cancel another run": cancel,
    "cancel another run as it ends": partial(cancel, as_it_ends=True),
}
