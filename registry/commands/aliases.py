"""`alias set`, `alias get` and `alias rm`, which datasets, models and bundles have alike."""

from typing import Any
from urllib.parse import quote

from optimize_site.kernel.commands import NounCommand, arg, verb
from optimize_site.kernel.errors import InvalidInput
from registry.references import parse_artifact, shown
from registry.render import alias_document

ALIAS = arg("reference", metavar="NS/NAME:ALIAS")
VERSION = arg("--version", required=True, metavar="vN")
NOTE = arg("--note", default="", help="why, where the alias is the champion of a workload")


def add_alias_verbs(command: type[NounCommand], noun: str) -> None:
    """Give the `registry` command a noun's three verbs of aliases."""
    routes = f"/v1/registry/{noun}"

    def set_alias(self: NounCommand, reference: str, version: str, note: str) -> None:
        """Point an alias at a version; a workload's `champion` is a promotion."""
        body = {"version": version, "note": note, "force": self.options.force}
        self.show(self.client.put(address(routes, reference), body), text=lambda found: _show(self, found))

    def get_alias(self: NounCommand, reference: str) -> None:
        """Show where an alias points, and where it pointed, oldest first."""
        self.show(self.client.get(address(routes, reference)), text=lambda found: _show(self, found))

    def remove_alias(self: NounCommand, reference: str) -> None:
        """Take an alias away; versions stay."""
        self.client.delete(address(routes, reference))
        self.show({"reference": reference, "removed": True}, text=lambda _: print(f"Removed {reference}."))

    setting = verb(f"{noun} alias set", ALIAS, VERSION, NOTE, gives=(alias_document,))
    removing = verb(f"{noun} alias rm", ALIAS, gives=("reference", "removed"))
    setattr(command, f"set_{noun}_alias", setting(set_alias))
    setattr(command, f"get_{noun}_alias", verb(f"{noun} alias get", ALIAS)(get_alias))
    setattr(command, f"remove_{noun}_alias", removing(remove_alias))


def address(routes: str, reference: str) -> str:
    """The route of `NS/NAME:ALIAS`. Raises InvalidInput for another form, InvalidReference."""
    name, _, label = reference.partition(":")
    if not label:
        raise InvalidInput(f"{shown(reference)} names no alias.", code="invalid_reference",
                           hint="Write NS/NAME:ALIAS.")
    return f"{routes}/{parse_artifact(name)}/aliases/{quote(label, safe='')}"


def _show(command: NounCommand, found: dict[str, Any]) -> None:
    command.facts([("Points at", found["versionReference"])], title=found["reference"])
    command.table(["VERSION", "SINCE", "BY"], [[row["version"] or "removed", row["since"][:16].replace("T", " "),
                                                row["by"]] for row in found["history"]])
