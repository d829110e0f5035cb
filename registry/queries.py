"""Reads of the registry: finding the version that a reference names, and listing what there is."""

import difflib
from collections.abc import Iterator

from django.db.models import Count, OuterRef, Prefetch, Q, QuerySet, Subquery

from optimize_site.kernel.errors import AmbiguousPrefix, NotFound
from optimize_site.kernel.ids import HEX, SHOWN
from registry.errors import AmbiguousName, InvalidReference, UnknownVersion
from registry.models import Alias, AliasMove, Artifact, Namespace, Version
from registry.references import DEFAULT_NAMESPACE, LATEST, Reference, parse_artifact, parse_reference, part, shown

CURRENT = "current"
MIN_PREFIX = 4
NOUNS = {"dataset": "datasets", "model": "models", "bundle": "bundles"}


def resolve_version(kind: str, text: str, *, namespace: str | None = None) -> Version:
    """The version of a dataset, model or bundle that `text` names.

    `NS/NAME` is its newest version; `:vN`, `:ALIAS` and `@sha256:…` choose one. A bare NAME is looked for in
    `namespace`, then in `default` (where its alias `current` wins over the newest), then anywhere it is unique. What is
    no name is a content hash, a digest, an ID, or an unambiguous prefix of one. Raises UnknownVersion saying what was
    looked for, AmbiguousName, AmbiguousPrefix, InvalidReference.
    """
    reference = parse_reference(text.strip().removeprefix("sha256:"))
    found = _named_version(kind, reference, namespace or "")
    if found is None and reference.is_bare:
        found = _version_by_hash(kind, reference.name)
    if found is None:
        raise _unknown(kind, reference, namespace or "")
    return found


def find_version(kind: str, text: str, *, namespace: str | None = None) -> Version | None:
    """As `resolve_version`; None where nothing is named so. Raises AmbiguousName, AmbiguousPrefix."""
    try:
        return resolve_version(kind, text, namespace=namespace)
    except (UnknownVersion, InvalidReference):
        return None


def _named_version(kind: str, reference: Reference, namespace: str) -> Version | None:
    artifact = find_artifact(kind, reference, namespace)
    if artifact is None:
        return None
    if reference.is_bare and artifact.namespace_id == DEFAULT_NAMESPACE:
        return version_at(artifact, Reference(DEFAULT_NAMESPACE, artifact.name, alias=CURRENT)) or newest(artifact)
    return version_at(artifact, reference)


def find_artifact(kind: str, reference: Reference, namespace: str = "") -> Artifact | None:
    """The artifact a reference names, bare names as `resolve_version` looks for them. Raises AmbiguousName."""
    named = Artifact.objects.filter(kind=kind, name=reference.name).select_related("namespace")
    if reference.namespace:
        return named.filter(namespace=reference.namespace).first()
    for place in (namespace, DEFAULT_NAMESPACE):
        artifact = named.filter(namespace=place).first() if place else None
        if artifact is not None:
            return artifact
    found = list(named.order_by("namespace")[:4])
    if len(found) > 1:
        places = ", ".join(artifact.reference for artifact in found)
        raise AmbiguousName(f"Several {NOUNS[kind]} are called {reference.name}: {places}.",
                            hint="Write its namespace too.")
    return found[0] if found else None


def get_artifact(kind: str, text: str) -> Artifact:
    """The artifact `NS/NAME`. Raises UnknownVersion, InvalidReference."""
    reference = parse_artifact(text)
    artifact = find_artifact(kind, reference)
    if artifact is None:
        raise _unknown(kind, reference, "")
    return artifact


def get_version(artifact: Artifact, label: str) -> Version:
    """An artifact's version by `vN`, alias or `sha256:…`. Raises UnknownVersion, InvalidReference."""
    mark = "@" if label.lower().startswith("sha256:") else ":"
    reference = parse_reference(f"{artifact.reference}{mark}{label}")
    version = version_at(artifact, reference)
    if version is None:
        raise _unknown(artifact.kind, reference, "")
    return version


def version_at(artifact: Artifact, reference: Reference) -> Version | None:
    """The version of an artifact that a reference's label names; without one, the newest."""
    versions = list_versions(artifact)
    if reference.number is not None:
        return versions.filter(number=reference.number).first()
    if reference.digest:
        return versions.filter(digest=reference.digest).first()
    if reference.alias and reference.alias != LATEST:
        return versions.filter(aliases__name=reference.alias).first()
    return versions.first()


def newest(artifact: Artifact) -> Version | None:
    """The artifact's newest version."""
    return list_versions(artifact).first()


def list_versions(artifact: Artifact) -> QuerySet[Version]:
    """An artifact's versions, newest first."""
    return artifact.versions.select_related("artifact__namespace").prefetch_related("aliases").order_by("-number")


def _version_by_hash(kind: str, text: str) -> Version | None:
    if HEX.fullmatch(text) is None or len(text) < MIN_PREFIX:
        return None
    matches = Version.objects.filter(artifact__kind=kind).filter(
        Q(content_hash__startswith=text) | Q(digest__startswith=text) | Q(pk__startswith=text))
    found = list(matches.select_related("artifact__namespace").order_by("created_at", "number"))
    # The same examples under two names are one thing; a prefix is ambiguous only between different contents.
    contents = {version.content_hash: version for version in reversed(found)}
    if len(contents) > 1:
        listed = ", ".join(sorted(f"{version.reference} ({hash_[:SHOWN]})" for hash_, version in contents.items())[:4])
        raise AmbiguousPrefix(f"{text!r} begins several hashes: {listed}.", hint="Give more digits.")
    return found[0] if found else None


# Saying what is not there --------------------------------------------------------------------------------------------


def _unknown(kind: str, reference: Reference, namespace: str) -> UnknownVersion:
    artifact = find_artifact(kind, reference, namespace)
    if artifact is not None:
        return UnknownVersion(f"{artifact.reference} has no version {_label(reference)}.",
                              hint=_versions_hint(artifact))
    return UnknownVersion(f"There is no {kind} {shown(str(reference))}{_looked_in(reference, namespace)}.",
                          hint=_near(kind, reference))


def _label(reference: Reference) -> str:
    if reference.number is not None:
        return f"v{reference.number}"
    return reference.alias or f"sha256:{reference.digest}"


def _versions_hint(artifact: Artifact) -> str:
    numbers = [f"v{number}" for number in artifact.versions.order_by("-number").values_list("number", flat=True)[:5]]
    aliases = list(artifact.aliases.order_by("name").values_list("name", flat=True)[:5])
    return f"It has {', '.join(numbers + aliases) or 'no version yet'}."


def _looked_in(reference: Reference, namespace: str) -> str:
    if reference.namespace:
        return ""
    looked = [f"as {namespace}/{reference.name}"] if namespace else []
    looked += [f"as {DEFAULT_NAMESPACE}/{reference.name}", "as a name of its own"]
    looked += ["as a hash"] if reference.is_bare and HEX.fullmatch(reference.name) else []
    return f" (looked for it {', '.join(looked)})"


def _near(kind: str, reference: Reference) -> str:
    close = list(_close_names(kind, reference))
    command = f"`./optimize registry {NOUNS[kind]} list`"
    if not close:
        return f"{command} shows what there is."
    return f"Did you mean {' or '.join(close)}? {command} shows all."


def _close_names(kind: str, reference: Reference) -> Iterator[str]:
    known = [f"{space}/{name}" for space, name in Artifact.objects.filter(kind=kind).order_by("-pk")
             .values_list("namespace", "name")[:2000]]
    whole = difflib.get_close_matches(reference.artifact, known, n=2, cutoff=0.7)
    names = difflib.get_close_matches(reference.name, {text.rpartition("/")[2] for text in known}, n=2, cutoff=0.7)
    by_name = [text for text in known if text.rpartition("/")[2] in names]
    yield from dict.fromkeys(whole + by_name[:2])


# Lists ---------------------------------------------------------------------------------------------------------------


def list_artifacts(kind: str, *, namespace: str = "", archived: bool = False) -> QuerySet[Artifact]:
    """Named artifacts by name: of one namespace, whether archived or not, or of all, archived ones where asked for.

    Each has `num_versions` and, of its newest version, `newest_id`, `newest_number`, `newest_hash`,
    `newest_descriptor` and `newest_at`.
    """
    newest_first = Version.objects.filter(artifact=OuterRef("pk")).order_by("-number")
    columns = {"newest_id": "pk", "newest_number": "number", "newest_hash": "content_hash",
               "newest_descriptor": "descriptor", "newest_at": "created_at"}
    named = Artifact.objects.filter(kind=kind).select_related("namespace").annotate(
        num_versions=Count("versions"),
        **{name: Subquery(newest_first.values(column)[:1]) for name, column in columns.items()})
    named = named.prefetch_related(Prefetch("aliases", Alias.objects.select_related("version").order_by("name")))
    named = named.order_by("namespace", "name")
    if namespace:
        return named.filter(namespace=namespace)
    return named if archived else named.filter(namespace__archived_at=None)


def listed(artifact: Artifact) -> Artifact:
    """An artifact with what `list_artifacts` gives each."""
    return list_artifacts(artifact.kind, namespace=artifact.namespace_id).get(pk=artifact.pk)


def list_namespaces(*, archived: bool = False) -> QuerySet[Namespace]:
    """Namespaces by name, with how much each holds; archived ones too where they are asked for."""
    counts = {f"num_{plural}": Count("artifacts", filter=Q(artifacts__kind=kind)) for kind, plural in NOUNS.items()}
    rows = Namespace.objects.annotate(**counts).order_by("name")
    return rows if archived else rows.filter(archived_at=None)


def get_namespace(name: str) -> Namespace:
    """A namespace by its name. Raises NotFound."""
    found = Namespace.objects.filter(name=name.lower()).first()
    if found is None:
        known = list(Namespace.objects.values_list("name", flat=True)[:2000])
        close = " or ".join(difflib.get_close_matches(name.lower(), known, n=2))
        raise NotFound(f"There is no namespace {shown(name)}.", code="unknown_namespace",
                       hint=f"Did you mean {close}?" if close else "`./optimize registry namespaces list` shows them.")
    return found


def names_in(namespace: Namespace) -> dict[str, list[str]]:
    """What a namespace holds, by kind: the names in order."""
    held: dict[str, list[str]] = {plural: [] for plural in NOUNS.values()}
    for kind, name in namespace.artifacts.order_by("name").values_list("kind", "name"):
        held[NOUNS[kind]].append(name)
    return held


def get_alias(artifact: Artifact, name: str) -> Alias:
    """An alias that somebody set. Raises UnknownVersion, InvalidReference."""
    name = part(name, "alias", name)
    alias = artifact.aliases.select_related("version__artifact__namespace").filter(name=name).first()
    if alias is None:
        raise UnknownVersion(f"{artifact.reference} has no alias {name}.", hint=_versions_hint(artifact))
    return alias


def list_aliases(artifact: Artifact) -> QuerySet[Alias]:
    """An artifact's aliases by their names, each with the version it points at."""
    return artifact.aliases.select_related("version").order_by("name")


def alias_history(artifact: Artifact, name: str) -> QuerySet[AliasMove]:
    """Where an alias pointed in its present epoch, oldest first; removing it closed the earlier ones."""
    alias = get_alias(artifact, name)
    moves = artifact.alias_moves.select_related("version__artifact__namespace")
    return moves.filter(name=alias.name, epoch=alias.epoch).order_by("pk")
