"""Graders that are functions of scoring bundles: which version of which bundle, and whether it can be scored with."""

import re
from functools import lru_cache
from typing import Any

from evaluations.bundles.scorer import BundleScorer, allowed_walls
from evaluations.bundles.walls import find_walls
from evaluations.errors import BundleNotUsable
from evaluations.scoring.spec import read_limits
from evaluations.scoring.terms import NotReady
from optimize_site.kernel.archives import list_archive
from optimize_site.kernel.blobs import blob_path
from optimize_site.kernel.conf import setting
from optimize_site.kernel.graders import FORMS, MalformedGrader, Target
from optimize_site.kernel.scoring import scoring_limits
from registry.models import Version
from registry.queries import resolve_version

MODULE = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*")
FUNCTION = "compute_score"
SHOWN_MODULES = 8


def canonical_bundle(target: Target, namespace: str) -> str:
    """The one text of a `bundle:REF#MODULE[:FUNCTION]` grader: the version that the reference names now, and the
    function where it is another than `compute_score`. The function was found in it, by importing it in the sandbox.

    Raises MalformedGrader, UnknownVersion, BundleNotUsable.
    """
    for name in (target.module, target.function):
        if MODULE.fullmatch(name) is None:
            raise MalformedGrader(f"{name[:60]!r} is no name of a module or a function.", hint=FORMS)
    version = resolve_version("bundle", target.target, namespace=namespace)
    _check_module(version, target.module)
    _check(version, target)
    function = "" if target.function == FUNCTION else f":{target.function}"
    return f"bundle:{version.reference}#{target.module}{function}"


def bundle_facts(target: Target) -> dict[str, Any]:
    """What a bundle's grader goes by: its bytes, and what its function takes of an answer."""
    version = resolve_version("bundle", target.target)
    takes, is_batch, is_async = _check(version, target)
    return {"bundle": version.reference, "hash": version.content_hash, "module": target.module,
            "function": target.function, "takes": list(takes), "manyAtOnce": is_batch, "async": is_async,
            "sandbox": sandbox_facts()["walls"]}


def _check_module(version: Version, module: str) -> None:
    path = module.replace(".", "/")
    held = [entry.path for entry in list_archive(blob_path(version.content_hash))]
    if f"{path}.py" in held or f"{path}/__init__.py" in held:
        return
    modules = [name.removesuffix(".py").replace("/", ".") for name in sorted(held) if name.endswith(".py")]
    raise BundleNotUsable(f"The bundle {version.reference} has no module {module}.", code="bundle_without_module",
                          hint=f"It has {', '.join(modules[:SHOWN_MODULES])}." if modules else "It holds no Python.")


def _check(version: Version, target: Target) -> tuple[tuple[str, ...], bool, bool]:
    """What the function takes. Raises BundleNotUsable."""
    limits = scoring_limits()
    try:
        allowed_walls(read_limits(limits))
        return _loaded(version.content_hash, target.module, target.function, limits["memoryBytes"],
                       limits["bundles"]["unsandboxed"])
    except NotReady as error:
        raise BundleNotUsable(f"The bundle {version.reference} cannot score: {error.reason}", code=error.code,
                              hint=error.hint) from error


@lru_cache(maxsize=256)
def _loaded(sha256: str, module: str, function: str, memory_bytes: int,
            unsandboxed: bool) -> tuple[tuple[str, ...], bool, bool]:
    """What a function takes that could be imported; the same bytes import alike. Raises NotReady."""
    limits = read_limits({"memoryBytes": memory_bytes, "bundles": {"unsandboxed": unsandboxed}})
    scorer = BundleScorer(blob_path(sha256), module, function, limits, None, sha256=sha256)
    scorer.close()
    return tuple(scorer.takes), scorer.is_batch, scorer.is_async


def sandbox_facts() -> dict[str, Any]:
    """Whether this machine gives bundles a sandbox, which walls hold and why others do not."""
    walls = find_walls()
    return {"isSandbox": walls.is_sandbox, "walls": list(walls.held), "missing": dict(walls.missing),
            "unsandboxedAllowed": bool(setting("trainer.bundles.allow-unsandboxed"))}
