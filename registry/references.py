"""The grammar of names: `NS/NAME`, `NS/NAME:vN`, `NS/NAME:ALIAS`, `NS/NAME@sha256:…`. Names are never paths."""

import re
from dataclasses import dataclass

from registry.errors import InvalidReference, ReservedAlias

PART = re.compile(r"[a-z0-9](?:[a-z0-9._-]{0,62}[a-z0-9])?")
VERSION = re.compile(r"v([1-9][0-9]{0,8})")
LIKE_VERSION = re.compile(r"v[0-9]+")
DIGEST = re.compile(r"[0-9a-f]{64}")
LATEST = "latest"
DEFAULT_NAMESPACE = "default"
SHOWN_CHARACTERS = 80

RULE = "A name is 1 to 64 of a-z, 0-9 and, between them, `.`, `_` and `-`."


@dataclass(frozen=True)
class Reference:
    """A parsed reference; `namespace` is empty for a bare name, and at most one of the last three is set."""

    namespace: str
    name: str
    number: int | None = None
    alias: str = ""
    digest: str = ""

    @property
    def artifact(self) -> str:
        return f"{self.namespace}/{self.name}" if self.namespace else self.name

    @property
    def is_bare(self) -> bool:
        """Whether it is a name and nothing else."""
        return not (self.namespace or self.number or self.alias or self.digest)

    def __str__(self) -> str:
        if self.number is not None:
            return f"{self.artifact}:v{self.number}"
        if self.digest:
            return f"{self.artifact}@sha256:{self.digest}"
        return f"{self.artifact}:{self.alias}" if self.alias else self.artifact


def parse_reference(text: str) -> Reference:
    """The reference a text spells; uppercase letters are lowered. Raises InvalidReference."""
    artifact, mark, rest = _cut(text)
    namespace, slash, name = artifact.rpartition("/")
    part(name, "name", text)
    if slash:
        part(namespace, "namespace", text)
    namespace, name = namespace.lower(), name.lower()
    if mark == "@":
        return Reference(namespace, name, digest=parse_digest(rest, text))
    if mark == ":":
        number, alias = parse_label(rest, text)
        return Reference(namespace, name, number, alias)
    return Reference(namespace, name)


def parse_artifact(text: str) -> Reference:
    """`NS/NAME` and nothing after it. Raises InvalidReference."""
    reference = parse_reference(text)
    if not reference.namespace or str(reference) != reference.artifact:
        raise InvalidReference(f"{shown(text)} is not of the form NAMESPACE/NAME.", hint="For instance support/train.")
    return reference


def parse_namespace(text: str) -> str:
    """A namespace's name, lowered. Raises InvalidReference."""
    return part(text, "namespace", text)


def parse_alias(text: str) -> str:
    """An alias that may be set or removed. Raises InvalidReference, ReservedAlias."""
    alias = part(text, "alias", text)
    if alias == LATEST:
        raise ReservedAlias("latest is always the newest version; it cannot be set or removed.",
                            hint="Choose another alias, for instance candidate.")
    if LIKE_VERSION.fullmatch(alias) is not None:
        raise ReservedAlias(f"The alias {alias} is written like a version.", hint="Choose a name, for instance stable.")
    return alias


def parse_label(text: str, whole: str = "") -> tuple[int | None, str]:
    """What stands after the colon: a version's number, or an alias. Raises InvalidReference."""
    lowered = text.lower() if text.isascii() else text
    number = VERSION.fullmatch(lowered)
    if number is not None:
        return int(number[1]), ""
    return None, part(text, "version or alias", whole or text)


def parse_digest(text: str, whole: str = "") -> str:
    """The hex of `sha256:…`. Raises InvalidReference."""
    algorithm, _, digest = text.lower().partition(":")
    if algorithm != "sha256" or DIGEST.fullmatch(digest) is None:
        raise InvalidReference(f"{shown(whole or text)} names no digest.",
                               hint="A digest is written @sha256: and 64 hex digits.")
    return digest


def part(text: str, what: str, whole: str) -> str:
    """One part of a reference, lowered. Raises InvalidReference."""
    # Only ASCII is lowered: other letters lower to ASCII ones too, and would make one name of two.
    lowered = text.lower() if text.isascii() else text
    if PART.fullmatch(lowered) is None:
        where = f" in {shown(whole)}" if whole != text else ""
        raise InvalidReference(f"{shown(text)}{where} is no {what}.", hint=RULE)
    return lowered


def shown(text: str) -> str:
    """A text as a sentence quotes it: short, its control characters escaped."""
    return ascii(text if len(text) <= SHOWN_CHARACTERS else text[:SHOWN_CHARACTERS] + "…")


def _cut(text: str) -> tuple[str, str, str]:
    """The artifact's part, the mark after it, and what follows the mark."""
    for mark in "@:":
        head, found, rest = text.partition(mark)
        if found:
            return head, mark, rest
    return text, "", ""
