"""Branching: another run from one exact snapshot, with its own identity, budget, metrics and outputs.

The child inherits its parent's resolved configuration, devices and grader with its instructions; overrides change
single fields.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from django.db import IntegrityError, transaction

from optimize_site.kernel.auth import Actor
from optimize_site.kernel.catalog import load_catalog
from optimize_site.kernel.errors import Problem
from optimize_site.kernel.hashing import sha256_json
from optimize_site.kernel.ids import derived_id, new_id
from runs.descriptor import REINFORCEMENT, SUPERVISED, Parsed, needs_verl, parse_descriptor
from runs.errors import RunRefused, SubmissionConflict
from runs.facts import Facts
from runs.lookups import facts_for
from runs.models import Run, Snapshot
from runs.operations.holds import RUN, hold_snapshot
from runs.operations.judge_room import room_problems
from runs.operations.length_check import measure
from runs.operations.sampler_room import sampler_problems
from runs.operations.submit import Submission, build_run, store_run
from runs.overrides import (
    BESIDE_CONFIG,
    budget_problems,
    laid_over,
    outside_state,
    shape_problems,
    stated_paths,
    without_nothing,
)
from runs.resolve import Resolved, resolve
from runs.reward import without_cold_start
from runs.snapshots import TRAINING_STATE, WEIGHTS, kinds_of

AUTO = "auto"
MODES = (AUTO, WEIGHTS, TRAINING_STATE)
GOES_ON = "optimizer, generators and place in the data go on."


@dataclass(frozen=True)
class Wish:
    """What is asked of a branch. Its budget is `steps` in updates, or a plan's horizon: `epochs`, and `max_steps` as a
    plan has it; `overrides` are fields below `config`."""

    snapshot: Snapshot
    steps: int | None = None
    restore: str = AUTO
    overrides: Mapping[str, Any] = field(default_factory=dict)
    description: str = ""
    config_name: str = ""
    submission_id: str = ""
    epochs: int | None = None
    max_steps: int | None = None

    @property
    def parent(self) -> Run:
        return self.snapshot.run

    @property
    def digest(self) -> str:
        """What tells the same submission from another one."""
        horizon = {"epochs": self.epochs, "maxSteps": self.max_steps} if self.epochs is not None else {}
        return sha256_json(horizon | {"snapshot": self.snapshot.pk, "steps": self.steps, "restore": self.restore,
                                      "overrides": self.overrides})

    @property
    def child_id(self) -> str:
        """The child's ID: derived where the submission is named, else random."""
        return branch_id(self.parent, self.submission_id) if self.submission_id else new_id()


def branch_id(parent: Run, submission_id: str) -> str:
    """The ID of the child that a named submission makes."""
    return derived_id("branch", parent.pk, submission_id)


@dataclass(frozen=True)
class Planned:
    """A branch checked whole: how it would be restored and why, what it would train, and what is wrong with it."""

    wish: Wish
    mode: str
    reason: str
    document: dict[str, Any]
    parsed: Parsed
    facts: Facts
    resolved: Resolved
    problems: tuple[Problem, ...]


def plan_branch(wish: Wish, *, actor: Actor) -> Planned:
    """Everything a submission would be told. Claims nothing, holds nothing."""
    actor.require("viewer")
    document = _document(wish)
    parsed, stated = parse_descriptor(document), stated_paths(wish.overrides)
    facts = replace(facts_for(parsed.descriptor), recorded=frozenset(needs_verl(parsed.descriptor)).difference(stated))
    resolved = resolve(parsed, facts)
    mode, reason, restoring = choose_mode(wish, resolved)
    found = [*_wish_problems(wish), *restoring, *resolved.problems]
    if not found:
        found += [*measure(resolved, facts)[0], *room_problems(resolved), *sampler_problems(resolved, facts)]
    resolved = replace(resolved, stated=stated, total_steps=resolved.total_steps if wish.steps is None else wish.steps,
                       warnings=without_cold_start(resolved.warnings))
    return Planned(wish, mode, reason, document, parsed, facts, resolved, tuple(found))


def branch_run(wish: Wish, *, actor: Actor) -> Submission:
    """Start a branch. Raises RunRefused with every problem, SubmissionConflict, KindMissing."""
    actor.require("operator")
    earlier = earlier_branch(wish)
    if earlier is not None:
        return Submission(earlier, is_new=False)
    return submit_branch(plan_branch(wish, actor=actor), actor=actor)


def earlier_branch(wish: Wish) -> Run | None:
    """The child that this submission already made. Raises SubmissionConflict where it asked for something else."""
    found = Run.objects.filter(pk=wish.child_id).first() if wish.submission_id else None
    if found is not None and found.submission_digest != wish.digest:
        raise SubmissionConflict(f"The submission {wish.submission_id!r} already made the branch {found.pk[:12]} "
                                 "from another request.", hint="Use another submission ID, or send the first request.",
                                 runId=found.pk)
    return found


def submit_branch(planned: Planned, *, actor: Actor) -> Submission:
    """Make the child of a plan that was found good. Raises RunRefused, KindMissing where its source went meanwhile."""
    if planned.problems:
        raise RunRefused.because(planned.problems)
    run = _child(planned, actor)
    try:
        with transaction.atomic():
            store_run(run, actor)
            kinds = (WEIGHTS, TRAINING_STATE) if planned.mode == TRAINING_STATE else (WEIGHTS,)
            hold_snapshot(planned.wish.snapshot, kinds, holder_kind=RUN, holder_id=run.pk)
    except IntegrityError:
        earlier = earlier_branch(planned.wish)
        if earlier is None:
            raise
        return Submission(earlier, is_new=False)
    return Submission(run, is_new=True)


def choose_mode(wish: Wish, resolved: Resolved) -> tuple[str, str, list[Problem]]:
    """How a branch is restored, why, and the problems of a mode that was asked for and cannot be had."""
    against = list(_against_state(wish, resolved))
    if wish.restore == AUTO:
        if not against:
            return TRAINING_STATE, f"The snapshot's {GOES_ON}", []
        return WEIGHTS, f"A fresh optimizer: {against[0]}", []
    if wish.restore == TRAINING_STATE and against:
        return TRAINING_STATE, "", [Problem("restoreMode", "training_state_not_possible",
                                            f"The training state cannot be kept: {reason}",
                                            "A branch from the weights can be: `./optimize runs branch RUN --snapshot "
                                            "SNAPSHOT --restore weights`.") for reason in against]
    asked = f"the snapshot's {GOES_ON}" if wish.restore == TRAINING_STATE else "a fresh optimizer."
    return wish.restore, f"Asked for: {asked}", []


def _against_state(wish: Wish, resolved: Resolved) -> Any:
    """Why the branch cannot keep its source's training state, one sentence each."""
    parent = wish.parent
    if TRAINING_STATE not in kinds_of(wish.snapshot):
        yield f"the snapshot of step {wish.snapshot.step} holds no training state."
    if resolved.method != parent.method:
        yield f"the method changes from {parent.method} to {resolved.method}."
    if wish.epochs is not None:
        yield "it trains for epochs of its own, which begin at the beginning of the data."
    lost = lost_reference(parent)
    if lost:
        yield lost
    for path in outside_state(wish.overrides):
        yield f"{path} is overridden, and only the learning rate and the validation frequency may change."
    if resolved.execution["gpus"] != parent.execution["gpus"]:
        yield f"execution.gpus changes from {parent.execution['gpus']} to {resolved.execution['gpus']}."


def lost_reference(run: Run) -> str:
    """Why a branch of the run cannot go on being held to what the run is held to: empty where it can."""
    inherits = run.source_snapshot_id and run.restore_mode != TRAINING_STATE
    if not inherits or not (run.method == "dpo" or _kl_beta(run)):
        return ""
    held = f"klBeta is {_kl_beta(run)}, and" if run.method in REINFORCEMENT else "the method is dpo, and"
    return f"{held} its source was compared with the adapter that it started from, which a branch does not hold."


def _kl_beta(run: Run) -> Any:
    """How much a reinforcement run is held to what it started from; 0 for others."""
    return run.config["rlHyperparams"]["klBeta"] if run.method in REINFORCEMENT else 0


def _wish_problems(wish: Wish) -> list[Problem]:
    found = [*budget_problems(wish.overrides), *shape_problems(wish.overrides, parent=wish.parent.config),
             *_horizon_problems(wish)]
    if wish.restore not in MODES:
        found.append(Problem("restoreMode", "restore_mode_unknown", f"restoreMode is {wish.restore!r}; it must be "
                             f"{', '.join(MODES)}."))
    if wish.parent.smoke is not None:
        found.append(Problem("snapshot", "smoke_snapshot", f"The snapshot {wish.snapshot.pk[:12]} is of a smoke check, "
                             "which has a slice of its rows by heart.", "Choose a snapshot of a run."))
    if WEIGHTS not in kinds_of(wish.snapshot):
        found.append(Problem("snapshot", "snapshot_kind_missing", f"The snapshot {wish.snapshot.pk[:12]} of step "
                             f"{wish.snapshot.step} holds no weights.", "Choose one that lists weights."))
    return found


def _horizon_problems(wish: Wish) -> Iterator[Problem]:
    """A branch trains for its steps or for its epochs, one of the two, and for one at least."""
    if (wish.steps is None) == (wish.epochs is None):
        stated = "neither steps nor epochs" if wish.steps is None else f"steps {wish.steps} and epochs {wish.epochs}"
        yield Problem("steps", "budget_unclear", f"The branch states {stated}; it trains for one of the two.",
                      "State the number of updates as steps, or the passes over the data as epochs.")
    if wish.max_steps is not None and wish.epochs is None:
        yield Problem("maxSteps", "max_steps_without_epochs", f"maxSteps is {wish.max_steps} and epochs is not stated; "
                      "it goes with epochs.", "Leave it out: steps is the whole budget.")
    for path, code, least, count in (("steps", "no_steps", "update", wish.steps),
                                     ("epochs", "no_epochs", "epoch", wish.epochs),
                                     ("maxSteps", "no_steps", "update", wish.max_steps)):
        if count is not None and count < 1:
            yield Problem(path, code, f"{path} is {count}; a branch trains at least one {least}.")


def _document(wish: Wish) -> dict[str, Any]:
    """The child's descriptor: the parent's resolved configuration with the overrides laid over it."""
    parent, overrides = wish.parent, dict(wish.overrides)
    beside = {name: overrides.pop(name) for name in BESIDE_CONFIG if name in overrides}
    method = str(overrides.get("method") or parent.method)
    config = laid_over(_inherited(parent, method), overrides)
    loop = "hyperparams" if config.get("method", "sft") in SUPERVISED else "rlHyperparams"
    budget = _budget(wish)
    config = laid_over(config, {loop: {"training": budget} if loop == "hyperparams" else budget})
    start = parent.references.get("warmStart") if config.get("method") in REINFORCEMENT else None
    told = None if "grader" in beside else (parent.descriptor or {}).get("graderInstructions")
    whole = {"kind": "run", "workload": parent.workload.name, "baseModel": parent.base_model, "config": config,
             "execution": _inherited_execution(parent, method), "grader": parent.grader or None,
             "graderInstructions": told,
             "warmStartModelId": start["versionId"] if start else None,
             "description": wish.description or None, "configName": wish.config_name or None}
    document: dict[str, Any] = without_nothing(laid_over(whole, beside))
    return document


def _budget(wish: Wish) -> dict[str, int | None]:
    """The branch's budget as a loop's fields; what is refused by itself stands here as the least there is."""
    if wish.epochs is None:
        return {"maxSteps": max(1, wish.steps or 1)}
    return {"epochs": max(1, wish.epochs), "maxSteps": None if wish.max_steps is None else max(1, wish.max_steps)}


def _inherited(parent: Run, method: str) -> dict[str, Any]:
    """The parent's configuration as a descriptor for `method`: what the method has no use for is left behind."""
    config: dict[str, Any] = without_nothing(parent.config) | {"dataset": parent.references["dataset"]["reference"]}
    validation = parent.references.get("validationDataset")
    if validation and "data" in config:
        config["data"]["validationDataset"] = validation["reference"]
    config.pop("warmStartConfigHash", None)
    if method != parent.method:
        _change_loop(config, method)
    if method in SUPERVISED and "engineSettings" in config:
        config["engineSettings"]["settings"] = _without_rollouts(config["engineSettings"]["settings"])
        if not config["engineSettings"]["settings"]:
            del config["engineSettings"]
    return config


def _without_rollouts(settings: Mapping[str, Any]) -> dict[str, Any]:
    """The engine settings that are of use without rollouts."""
    known = {name: entry for engine in load_catalog().engines.values() for name, entry in engine.settings.items()}
    return {name: value for name, value in settings.items() if name not in known or not known[name].is_rollout}


def _inherited_execution(parent: Run, method: str) -> dict[str, Any]:
    """The parent's execution settings, the values of memory that it recorded among them."""
    execution: dict[str, Any] = without_nothing(parent.execution)
    if method in SUPERVISED:
        execution.pop("rollout", None)
    return execution


def _change_loop(config: dict[str, Any], method: str) -> None:
    """A branch to reinforcement inherits neither data nor loss, one to preference pairs no loss and no packing; only
    the adapter's shape crosses between loops, and reinforcement trains it without dropout."""
    for name in ("preference", *(() if method in REINFORCEMENT else ("reward",))):
        config.pop(name, None)
    if method in REINFORCEMENT and "hyperparams" in config:
        lora = config.pop("hyperparams")["lora"]
        config["rlHyperparams"] = {"lora": lora | {"dropout": 0}}
        for name in ("data", "loss"):
            config.pop(name, None)
    elif method in SUPERVISED and "rlHyperparams" in config:
        config["hyperparams"] = {"lora": config.pop("rlHyperparams")["lora"]}
    if method == "dpo":
        config.pop("loss", None)
        config.get("data", {}).pop("packing", None)


def _child(planned: Planned, actor: Actor) -> Run:
    wish = planned.wish
    run = build_run(planned.parsed.descriptor, planned.document, planned.resolved, planned.facts, actor)
    run.pk = wish.child_id
    run.base_revision = wish.parent.base_revision
    run.total_steps = wish.steps
    run.parent, run.source_snapshot = wish.parent, wish.snapshot
    run.restore_mode, run.restore_reason = planned.mode, planned.reason
    run.submission_id, run.submission_digest = wish.submission_id, wish.digest
    return run
