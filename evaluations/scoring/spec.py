"""What a scorer process is told first: its terms, their limits, its folder.

    {"terms": [{"name": "exact", "weight": 1.0, "kind": "grader", "grader": "exact"}],
     "onFailure": "zero", "limits": {"seconds": 30, "memoryBytes": 1073741824,
     "http": {"allowedHosts": [], "caFile": "", "headers": []},
     "bundles": {"unsandboxed": false}}, "scratch": "/a/folder"}

A term holds one of `grader` (a rule, or `http:URL`), `bundle` ({archive, sha256, module, function}) and `judge`
({socket, instructions, source}). Weights and `onFailure` are for whoever adds the scores up; they are read here so
that a spec is checked as a whole.
"""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from evaluations.scoring.terms import NotReady

NAME = re.compile(r"[A-Za-z0-9_.#/:-]{1,80}")
KINDS, ON_FAILURE, MEANS = ("grader", "rule", "model"), ("zero", "exclude"), ("grader", "bundle", "judge")
MAX_TERMS = 32


@dataclass(frozen=True)
class Limits:
    """What one answer may cost a term: seconds by the clock, memory; and which hosts may be asked."""

    seconds: float = 30.0
    memory_bytes: int = 1024**3
    allowed_hosts: Sequence[str] = ()
    ca_file: str = ""
    """The authorities that vouch for services, a file of certificates; empty for the machine's own."""
    headers: Sequence[str] = ()
    """Which header each host is sent and where its value is read; the value itself is in no spec."""
    unsandboxed_bundles: bool = False
    """Whether the operator lets bundles run where the machine gives no sandbox."""


@dataclass(frozen=True)
class TermSpec:
    """One term: `means` is grader, bundle or judge, and `body` what stands under that key."""

    name: str
    weight: float
    kind: str
    means: str
    body: Any


@dataclass(frozen=True)
class Spec:
    """The whole of it."""

    terms: Sequence[TermSpec]
    on_failure: str = "zero"
    limits: Limits = field(default_factory=Limits)
    scratch: Path | None = None


def read_spec(document: Any) -> Spec:
    """The spec in a JSON object. Raises NotReady with the code `bad_spec`."""
    _same(isinstance(document, Mapping), "The spec is no JSON object.")
    terms = document.get("terms")
    _same(isinstance(terms, list) and 1 <= len(terms) <= MAX_TERMS, f"A spec has 1 to {MAX_TERMS} terms.")
    read = [_term(number, term) for number, term in enumerate(terms)]
    _same(len({term.name for term in read}) == len(read), "Two terms have one name.")
    on_failure = document.get("onFailure", "zero")
    _same(on_failure in ON_FAILURE, f"onFailure is {on_failure!r}; it must be {' or '.join(ON_FAILURE)}.")
    scratch = document.get("scratch")
    _same(scratch is None or (isinstance(scratch, str) and Path(scratch).is_absolute()),
          f"scratch is {scratch!r}; it must be the whole path of a folder.")
    return Spec(read, on_failure, read_limits(document.get("limits") or {}), Path(scratch) if scratch else None)


def _term(number: int, term: Any) -> TermSpec:
    place = f"terms[{number}]"
    _same(isinstance(term, Mapping), f"{place} is no JSON object.")
    name, weight, kind = term.get("name"), term.get("weight", 1.0), term.get("kind", "grader")
    _same(isinstance(name, str) and NAME.fullmatch(name) is not None, f"{place} has no usable name: {name!r}.")
    _same(isinstance(weight, int | float) and not isinstance(weight, bool) and math.isfinite(weight),
          f"The weight of {place} is {weight!r}; it must be a number.")
    _same(kind in KINDS, f"The kind of {place} is {kind!r}; it must be {' or '.join(KINDS)}.")
    means = [key for key in MEANS if key in term]
    _same(len(means) == 1, f"{place} must hold one of {', '.join(MEANS)}.")
    return TermSpec(name, float(weight), kind, means[0], term[means[0]])


def read_limits(found: Any) -> Limits:
    """What stands under `limits`. Raises NotReady with the code `bad_spec`."""
    _same(isinstance(found, Mapping), "limits is no JSON object.")
    seconds, memory = found.get("seconds", Limits.seconds), found.get("memoryBytes", Limits.memory_bytes)
    for name, value in (("seconds", seconds), ("memoryBytes", memory)):
        _same(isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < math.inf,
              f"limits.{name} is {value!r}; it must be a number above 0.")
    http = found.get("http") or {}
    _same(isinstance(http, Mapping), "limits.http is no JSON object.")
    hosts, headers, file = http.get("allowedHosts", []), http.get("headers", []), http.get("caFile", "")
    for name, listed in (("allowedHosts", hosts), ("headers", headers)):
        _same(isinstance(listed, list) and all(isinstance(entry, str) for entry in listed),
              f"limits.http.{name} must be a list of texts.")
    _same(isinstance(file, str), "limits.http.caFile must be the path of a file.")
    bundles = found.get("bundles") or {}
    _same(isinstance(bundles, Mapping), "limits.bundles is no JSON object.")
    return Limits(float(seconds), int(memory), tuple(hosts), file, tuple(headers),
                  bundles.get("unsandboxed", False) is True)


def _same(holds: bool, reason: str) -> None:
    if not holds:
        raise NotReady("bad_spec", reason)
