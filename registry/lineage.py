"""Where a version came from, both ways: what its sender states, made exact, and reading it back up and down."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from django.db.models import QuerySet

from optimize_site.kernel.errors import NotFound
from registry.errors import MalformedLineage
from registry.models import Artifact, Parent, Version
from registry.queries import resolve_version

BASE, TRAINING, VALIDATION = "model/base", "dataset/training", "dataset/validation"
EXTERNAL = "external"
KINDS = tuple(Artifact.Kind.values)
MAX_PARENTS, MAX_KIND, MAX_REFERENCE, MAX_PRODUCER = 100, 40, 300, (20, 80)
MOST_KIN, DEEPEST = 500, 20
EXAMPLE = ('{"parents": [{"kind": "dataset/source", "reference": "support/raw:v1"}], '
           '"producedBy": {"kind": "script", "id": "clean.py"}}')


@dataclass(frozen=True)
class Lineage:
    """A stated lineage with its parents found: `document` is what is kept, `parents` are rows not yet saved."""

    document: dict[str, Any]
    parents: tuple[Parent, ...] = ()
    produced_by_kind: str = ""
    produced_by_id: str = ""


def resolve_lineage(stated: Any, namespace: str = "") -> Lineage:
    """A lineage as its sender states it: `parents`, by reference, `producedBy`, and whatever else is to be kept.

    A parent is a dataset's reference, or `{"kind", "reference"}` with a kind such as `model/base` or `dataset/source`;
    the kind `external` is for what this box does not keep. What was found is kept exactly, as `NS/NAME:vN`. Raises
    MalformedLineage, and UnknownVersion for a parent that there is not.
    """
    if not isinstance(stated, dict):
        raise MalformedLineage("The lineage is not a JSON object.", hint=f"For instance {EXAMPLE}.")
    kind, id_ = _producer(stated.get("producedBy"))
    parents = stated.get("parents", [])
    if not isinstance(parents, list) or len(parents) > MAX_PARENTS:
        raise MalformedLineage(f"lineage.parents must be a list of at most {MAX_PARENTS}.", hint=f"Example: {EXAMPLE}")
    found = [_parent(place, parent, namespace) for place, parent in enumerate(parents)]
    unique = {(parent.kind, parent.reference): parent for parent in found}
    document = stated | ({"parents": [_stored(parent) for parent in unique.values()]} if "parents" in stated else {})
    return Lineage(document, tuple(unique.values()), kind, id_)


def _producer(stated: Any) -> tuple[str, str]:
    if stated is None:
        return "", ""
    kind, id_ = (stated.get("kind"), stated.get("id")) if isinstance(stated, dict) else (None, None)
    for name, value, most in (("kind", kind, MAX_PRODUCER[0]), ("id", id_, MAX_PRODUCER[1])):
        if not isinstance(value, str) or not 1 <= len(value) <= most:
            raise MalformedLineage(f"lineage.producedBy.{name} must be a text of 1 to {most} characters.",
                                   hint=f"Example: {EXAMPLE}")
    return str(kind).lower(), str(id_)


def _parent(place: int, stated: Any, namespace: str) -> Parent:
    entry = {"kind": "dataset/source", "reference": stated} if isinstance(stated, str) else stated
    kind, reference = (entry.get("kind"), entry.get("reference")) if isinstance(entry, dict) else (None, None)
    if not isinstance(kind, str) or not isinstance(reference, str) or not reference or len(reference) > MAX_REFERENCE:
        raise MalformedLineage(f"lineage.parents[{place}] must hold a kind and a reference of at most {MAX_REFERENCE} "
                               "characters.", hint=f"Example: {EXAMPLE}")
    if kind == EXTERNAL:
        return Parent(kind=kind, reference=reference)
    artifact = kind.partition("/")[0]
    if artifact not in KINDS or len(kind) > MAX_KIND:
        raise MalformedLineage(f"lineage.parents[{place}].kind is {kind[:60]!r}; it must be {EXTERNAL}, or begin with "
                               f"one of {', '.join(KINDS)}.", hint="For instance dataset/source or model/base.")
    version = _version(place, artifact, reference, namespace)
    return Parent(kind=kind, reference=version.reference, parent=version)


def _version(place: int, artifact: str, reference: str, namespace: str) -> Version:
    try:
        return resolve_version(artifact, reference, namespace=namespace or None)
    except NotFound as error:
        raise type(error)(f"lineage.parents[{place}]: {error.detail}", code=error.code,
                          hint=f"{error.hint} Name what this box does not keep with the kind {EXTERNAL}.") from error


def _stored(parent: Parent) -> dict[str, Any]:
    version = parent.parent
    return {"kind": parent.kind, "reference": parent.reference} | ({"versionId": version.pk} if version else {})


# Reading -------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Kin:
    """A relative of a version, `depth` steps away; `version` is None for what this box does not keep."""

    kind: str
    reference: str
    version: Version | None
    depth: int


def ancestors_of(version: Version) -> list[Kin]:
    """What a version came from, nearest first, each once."""
    return list(_walk(version, "child", "parent"))


def descendants_of(version: Version) -> list[Kin]:
    """What came from a version, nearest first, each once."""
    return list(_walk(version, "parent", "child"))


def _walk(version: Version, from_side: str, to_side: str) -> Iterator[Kin]:
    """Breadth first over the rows, a query a generation; a ring of references ends where it began."""
    seen, front, found = {version.pk}, [version.pk], 0
    for depth in range(1, DEEPEST + 1):
        after = []
        for row in _rows(from_side, front, to_side):
            other: Version | None = getattr(row, to_side)
            if (other is not None and other.pk in seen) or found == MOST_KIN:
                continue
            if other is not None:
                seen.add(other.pk)
                after.append(other.pk)
            found += 1
            yield Kin(row.kind, other.reference if other is not None else row.reference, other, depth)
        front = after
        if not front:
            return


def _rows(from_side: str, front: list[str], to_side: str) -> QuerySet[Parent]:
    rows = Parent.objects.filter(**{f"{from_side}__in": front}).select_related(f"{to_side}__artifact__namespace")
    return rows.order_by("kind", "reference", "pk")


def base_parent(parents: tuple[Parent, ...]) -> Version | None:
    """The base model among the parents. Raises MalformedLineage where there are several."""
    bases = [parent.parent for parent in parents if parent.kind == BASE]
    if len(bases) > 1:
        raise MalformedLineage(f"The lineage names {len(bases)} parents of the kind {BASE}; a trained model stands on "
                               "exactly one.")
    return bases[0] if bases else None


def find_parent(version: Version, kind: str) -> Version | None:
    """The parent of one kind, where there is one."""
    row = version.parents.filter(kind=kind).exclude(parent=None).select_related("parent__artifact__namespace").first()
    return row.parent if row is not None else None



def stated_lineage(text: str) -> dict[str, Any] | None:
    """The lineage that a query states as JSON; None for none. Raises MalformedLineage."""
    if not text:
        return None
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise MalformedLineage(f"The lineage is not JSON: {error}.", hint="Send one JSON object.") from error
    if not isinstance(found, dict):
        raise MalformedLineage("The lineage is not a JSON object.", hint=f"For instance {EXAMPLE}.")
    return found
