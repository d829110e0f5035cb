"""Bodies that the registry's routes take."""

from optimize_site.kernel.api import Body


class Note(Body):
    """A note; null leaves the one there is, an empty text clears it."""

    description: str | None = None


class AliasTarget(Body):
    """The version an alias shall point at, as `vN`; `note` and `force` are for a promotion."""

    version: str
    note: str = ""
    force: bool = False


class Collecting(Body):
    """Whether only to say what would be removed."""

    dryRun: bool = False
