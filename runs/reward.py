"""What a reinforcement run's completions are scored by: its terms resolved, named and checked. Pure.

A resolved term states what scores by its identity: a rule's bundle by its hash, a judge by its model's ID and its
instructions, a grader by its one text. What was written, and what it stood for, is kept beside the configuration.
"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import count
from typing import Any

from optimize_site.kernel.errors import OperationError, Problem
from optimize_site.kernel.graders import DEFAULT, Target, parse_target
from optimize_site.kernel.judges import Appointment
from runs.descriptor import Config, RewardTerm, RunDescriptor
from runs.facts import Facts

FUNCTION = "compute_score"
NAME_CHARACTERS, MAX_NAME = re.compile(r"[^A-Za-z0-9_.#/:-]"), 80
OWN = {"rule": ("bundle", "module", "function"), "model": ("model", "instructions"),
       "grader": ("grader", "instructions")}
"""The fields that each kind of term has beside `kind` and `weight`."""
STRICT_RULES = frozenset({"exact", "numeric", "json-label-match"})
"""Rules that score the right answer and nothing before it."""
STRICT = "Every completion of a group scores zero until the model answers rightly once, and then nothing is learned."


def resolve_reward(descriptor: RunDescriptor, facts: Facts) -> dict[str, Any]:
    """The `reward` group as it is hashed; without terms the run's grader is the whole of it."""
    reward = (descriptor.config or Config()).reward
    return {"terms": [_resolved(term, descriptor, facts) for term in terms_of(descriptor)],
            "onFailure": (reward and reward.on_failure) or "zero"}


def terms_of(descriptor: RunDescriptor) -> list[RewardTerm]:
    """The terms that are stated, or the one that stands for none."""
    return _stated(descriptor) or [RewardTerm(kind="grader")]


def _stated(descriptor: RunDescriptor) -> list[RewardTerm]:
    reward = (descriptor.config or Config()).reward
    return list(reward.terms or []) if reward else []


def grader_text(term: RewardTerm, descriptor: RunDescriptor, facts: Facts) -> str:
    """What a term of the kind grader scores with, as it was written: its own, the run's, the workload's, the default"""
    return term.grader or descriptor.grader or (facts.workload.grader if facts.workload else "") or DEFAULT


def instructions_of(term: RewardTerm, descriptor: RunDescriptor, facts: Facts) -> tuple[str, str]:
    """What a judge is told, where it is stated, and what its workload states: a term without a grader of its own takes
    the run's, and one by the workload's grader the workload's."""
    if term.kind != "grader":
        return term.instructions or "", ""
    stated = term.instructions or ("" if term.grader else descriptor.grader_instructions) or ""
    written, workload = grader_text(term, descriptor, facts), facts.workload
    is_workloads = workload is not None and facts.graders.get(written, written) == workload.grader
    return stated, workload.grader_instructions if workload is not None and is_workloads else ""


def judge_of(named: str, term: RewardTerm, descriptor: RunDescriptor, facts: Facts) -> Appointment | None:
    """The judge that was found for what a term names."""
    return facts.judges.get((named, *instructions_of(term, descriptor, facts)))


def target_of(grader: str) -> Target | None:
    """What a grader's text names beyond a rule; None for a rule and for what cannot be read."""
    try:
        return parse_target(grader)
    except OperationError:
        return None


def _resolved(term: RewardTerm, descriptor: RunDescriptor, facts: Facts) -> dict[str, Any]:
    found: dict[str, Any] = {"kind": term.kind, "weight": 1 if term.weight is None else _neat(term.weight)}
    if term.kind == "rule":
        bundle = facts.bundles.get(term.bundle or "")
        return found | {"bundle": bundle.content_hash if bundle else term.bundle, "module": term.module,
                        "function": term.function or FUNCTION}
    if term.kind == "model":
        judge = judge_of(term.model or "", term, descriptor, facts)
        return found | {"model": judge.model_id if judge else term.model,
                        "instructions": judge.instructions if judge else term.instructions}
    return found | _grader(term, descriptor, facts)


def _grader(term: RewardTerm, descriptor: RunDescriptor, facts: Facts) -> dict[str, Any]:
    """A grader's text, the bundle or the model that it names by its identity."""
    stated = grader_text(term, descriptor, facts)
    grader = facts.graders.get(stated, stated)
    target = target_of(grader)
    if target is not None and target.kind == "bundle" and (bundle := facts.bundles.get(target.target)):
        return {"grader": f"bundle:{bundle.content_hash}#{target.module}:{target.function}"}
    if target is not None and target.kind == "model" and \
            (judge := judge_of(target.target, term, descriptor, facts)):
        return {"grader": f"model:{judge.model_id}", "instructions": judge.instructions}
    return {"grader": grader}


def _neat(weight: float) -> float:
    return int(weight) if float(weight).is_integer() else weight


# Beside the configuration --------------------------------------------------------------------------------------------


def reward_references(descriptor: RunDescriptor, reward: Mapping[str, Any], facts: Facts) -> list[dict[str, Any]]:
    """What stands beside a resolved reward, term by term: its name in figures and rollouts, and the `bundle` or the
    `judge` that it stands for."""
    found = [_stands_for(term, descriptor, facts) for term in terms_of(descriptor)]
    names = term_names(reward["terms"], [str(named.get("bundle", {}).get("reference", "")) for named in found])
    return [{"name": name} | named for name, named in zip(names, found, strict=True)]


def _stands_for(term: RewardTerm, descriptor: RunDescriptor, facts: Facts) -> dict[str, Any]:
    stated = grader_text(term, descriptor, facts) if term.kind == "grader" else ""
    target = target_of(facts.graders.get(stated, stated)) if stated else None
    bundle, model = (target.target if target and target.kind == kind else "" for kind in ("bundle", "model"))
    if found := facts.bundles.get(term.bundle or bundle):
        return {"bundle": found.reference_document()}
    judge = judge_of(term.model or model, term, descriptor, facts)
    return {"judge": judge.document} if judge else {}


def term_names(terms: Sequence[Mapping[str, Any]], references: Sequence[str]) -> list[str]:
    """A name for each resolved term, all different: a function's module, a rule's name, `http`, `judge`.

    Where two functions share a module each is called by its bundle and function too. `references` name the bundles.
    """
    modules = Counter(term.get("module") for term in terms)
    names: list[str] = []
    for term, reference in zip(terms, references, strict=True):
        name = _name(term, reference, modules[term.get("module")] > 1)
        names.append(next(free for free in _numbered(name) if free not in names))
    return names


def _numbered(name: str) -> Iterator[str]:
    yield name
    yield from (f"{name[:MAX_NAME - 3]}-{number}" for number in count(2))


def _name(term: Mapping[str, Any], reference: str, is_shared: bool) -> str:
    if term["kind"] == "model":
        return "judge"
    if term["kind"] == "rule":
        name = f"{reference.partition(':')[0]}#{term['module']}:{term['function']}" if is_shared else term["module"]
        return NAME_CHARACTERS.sub("_", str(name))[:MAX_NAME] or "rule"
    kind = str(term["grader"]).partition(":")[0]
    return "judge" if kind == "model" else NAME_CHARACTERS.sub("_", kind)[:MAX_NAME] or "grader"


def reward_words(config: Mapping[str, Any], references: Mapping[str, Any]) -> str | None:
    """`0.9 × exact + 0.1 × regex; a failed term scores zero`; None for a run without a reward."""
    if "reward" not in config:
        return None
    parts = [f"{term['weight']:g} × {named['name']}"
             for term, named in zip(config["reward"]["terms"], references["reward"], strict=True)]
    failed = "leaves its completion out" if config["reward"]["onFailure"] == "exclude" else "scores zero"
    return f"{' + '.join(parts)}; a failed term {failed}"


# Checks --------------------------------------------------------------------------------------------------------------


def check_reward(descriptor: RunDescriptor) -> Iterator[Problem]:
    """Each term says what scores and nothing that its kind has no use for, and something is rewarded. What a term
    names is looked up before."""
    terms = _stated(descriptor)
    for number, term in enumerate(terms):
        yield from _check_term(f"config.reward.terms[{number}]", term)
    if terms and all(term.weight == 0 for term in terms):
        yield Problem("config.reward.terms", "nothing_rewarded", "Every term of the reward has the weight 0, so every "
                      "completion scores the same.", "Give a term another weight.")


def _check_term(path: str, term: RewardTerm) -> Iterator[Problem]:
    if term.kind is None:
        yield Problem(f"{path}.kind", "required", "A term of the reward says what scores: its kind is missing.",
                      "It is rule (a bundle's function), model (a judge) or grader.")
        return
    for kind, names in OWN.items():
        for name in names if kind != term.kind else ():
            if name not in OWN[term.kind] and getattr(term, name) is not None:
                yield Problem(f"{path}.{name}", "does_not_apply", f"{name} does not apply to a term of the kind "
                              f"{term.kind}.", "Leave it out.")
    needed = {"rule": ("bundle", "module"), "model": ("model",)}.get(term.kind, ())
    for name in needed:
        if getattr(term, name) is None:
            yield Problem(f"{path}.{name}", "required", f"A term of the kind {term.kind} needs its {name}.")
    target = target_of(term.grader) if term.grader else None
    if term.grader and term.instructions and (target is None or target.kind != "model"):
        yield Problem(f"{path}.instructions", "does_not_apply", f"instructions are for a model that judges, and the "
                      f"term's grader is {term.grader}.", "Leave them out.")


def is_strict(reward: Mapping[str, Any]) -> bool:
    """Whether only exact answers score: one rule that compares answers, and nothing that rewards their form."""
    texts = [str(term.get("grader", "")).partition(":")[0] for term in reward["terms"] if term["weight"] > 0]
    return bool(texts) and all(text in STRICT_RULES for text in texts)


STRICT_CODE = "strict_reward"
FORMAT_TERMS = {"json-label-match": 'json-schema:{"schema":{"type":"object"}}',
                "numeric": r'regex:{"pattern":"\\d"}',
                "exact": r'regex:{"match":"full","pattern":"[^\\n]{1,80}"}'}
"""For a strict rule, one that rewards the form its answers have: a JSON object, a number, one short line."""
FORMAT_WEIGHT = 0.2


ANSWER_LINE = "answer-line"
"""The rule for answers that end in a line which marks what they come to."""


def format_term(grader: str, *, has_answer_lines: bool = False) -> tuple[str, float]:
    """A term that rewards the form of the answers that a grader takes, or that the rows show to have: its own grader
    and its weight."""
    if has_answer_lines:
        return ANSWER_LINE, FORMAT_WEIGHT
    return FORMAT_TERMS.get(grader.partition(":")[0], FORMAT_TERMS["exact"]), FORMAT_WEIGHT


def without_cold_start(warnings: Sequence[dict[str, str]]) -> tuple[dict[str, str], ...]:
    """The warnings of a run that starts from an adapter, which is no cold model."""
    return tuple(warning for warning in warnings if warning["code"] != STRICT_CODE)


def warn_of_reward(reward: Mapping[str, Any], *, starts_from_adapter: bool,
                   has_answer_lines: bool = False) -> Iterator[dict[str, str]]:
    """A format term or a warm start is offered where the reward alone gives a cold model no signal."""
    if is_strict(reward) and not starts_from_adapter:
        names = " and ".join(str(term["grader"]).partition(":")[0] for term in reward["terms"])
        grader, weight = format_term(str(reward["terms"][0]["grader"]), has_answer_lines=has_answer_lines)
        yield {"code": STRICT_CODE, "message": f"The reward is {names} alone. {STRICT} Add a term for the answer's "
               f"form, such as {{kind: grader, weight: {weight:g}, grader: '{grader}'}}, or start from a supervised "
               "adapter with warmStartModelId."}
