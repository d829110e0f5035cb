"""How each fault is done to a real box, by what it strikes. Each says whether it found something to do it to."""

from __future__ import annotations

from collections.abc import Callable

from bench.chaos.faults import files, machine, messages, operators, processes
from bench.chaos.scene import Scene
from bench.chaos.schedule import Fault

OF_A_RUN: dict[str, Callable[[Scene, Fault], bool]] = (
    processes.OF_A_JOB | files.OF_A_JOB | machine.OF_A_JOB | operators.OF_A_JOB)
"""What needs a run's own job, and so finds nothing once the run is over."""

FAULTS: dict[str, Callable[[Scene, Fault], bool]] = (
    OF_A_RUN | processes.OF_THE_BOX | files.OF_THE_BOX | machine.OF_THE_BOX | messages.OF_THE_BOX
    | operators.OF_THE_BOX)
"""Every kind; one that is not of a run strikes the box and what runs on it."""
