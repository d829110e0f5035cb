"""What can go wrong with names and versions."""

from optimize_site.kernel.errors import InvalidInput, NotFound, Refused


class InvalidReference(InvalidInput):
    code = "invalid_reference"


class UnknownVersion(NotFound):
    code = "unknown_reference"


class AmbiguousName(NotFound):
    code = "ambiguous_name"


class ReservedAlias(Refused):
    code = "reserved_alias"
