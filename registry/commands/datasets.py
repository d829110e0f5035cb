"""`registry datasets …`."""

import sys
from pathlib import Path
from typing import Any
from urllib.parse import quote

from datasets import sending, showing
from optimize_site.kernel.commands import NounCommand, arg, verb
from optimize_site.kernel.errors import InvalidInput
from registry.references import LATEST, Reference, parse_artifact, parse_reference, shown

ROUTES = "/v1/registry/datasets"
DATASET = arg("reference", metavar="NS/NAME[:REF]")
NAMED = arg("reference", metavar="NS/NAME")
ALIAS = arg("reference", metavar="NS/NAME:ALIAS")


class DatasetVerbs(NounCommand):
    """What can be done with named datasets."""

    @verb("datasets list", arg("--namespace", default=""), arg("--limit", type=int, default=50),
          arg("--offset", type=int, default=0))
    def list_datasets(self, namespace: str, limit: int, offset: int) -> None:
        """List named datasets."""
        self.show(self.client.get(ROUTES, namespace=namespace, limit=limit, offset=offset), text=self._datasets)

    @verb("datasets versions", NAMED, arg("--limit", type=int, default=50), arg("--offset", type=int, default=0))
    def list_dataset_versions(self, reference: str, limit: int, offset: int) -> None:
        """List a dataset's versions, newest first."""
        path = f"{ROUTES}/{parse_artifact(reference)}/versions"
        self.show(self.client.get(path, limit=limit, offset=offset),
                  text=lambda document: showing.versions(self, document))

    @verb("datasets get", DATASET)
    def get_dataset(self, reference: str) -> None:
        """Show a dataset's versions and aliases, or one version and what it holds."""
        parsed = _named(reference)
        if str(parsed) == parsed.artifact:
            self.show(self.client.get(f"{ROUTES}/{parsed.artifact}"), text=self._dataset)
        else:
            self.show(self.client.get(_path(parsed)), text=lambda document: showing.version(self, document))

    @verb("datasets register", NAMED,
          arg("-f", "--file", required=True, help="chat rows, one JSON object a line; - is standard input"),
          arg("--alias", default="", help="an alias to set on the version"),
          arg("--format", default="", help="the format, where the file does not say it"),
          arg("--lineage", default="", metavar="FILE", help="JSON that says where the data came from"),
          arg("--description", default=""),
          arg("--no-upload", action="store_true", help="check the file here and register nothing"))
    def register_dataset(self, reference: str, file: str, alias: str, format: str, lineage: str, description: str,
                         no_upload: bool) -> None:
        """Register a file as the next version of a dataset; the same examples give the version there is."""
        path = f"{ROUTES}/{parse_artifact(reference)}/versions"
        if no_upload:
            found = sending.examine_file(file)
            self.show({"file": file, "valid": True, "exampleCount": found.num_examples, "missingImages": []},
                      text=lambda document: print(f"{document['exampleCount']} rows, no image missing. "
                                                  "Nothing was registered."))
            return
        done = sending.send(self, path, file, alias=alias, format=format, description=description,
                            lineage=_read_lineage(lineage))
        self.show(done, text=self._registered_dataset)

    @verb("datasets object", DATASET, arg("path", help="the object's path, as the version lists it"))
    def get_dataset_object(self, reference: str, path: str) -> None:
        """Write an object's bytes to standard output."""
        self.client.download(f"{_path(_named(reference))}/objects/{quote(path, safe='')}", sys.stdout.buffer)
        sys.stdout.buffer.flush()

    @verb("datasets annotate", DATASET, arg("--description", help="an empty text clears it"))
    def annotate_dataset(self, reference: str, description: str | None) -> None:
        """Set the note on a version, the newest where none is named."""
        done = self.client.post(f"{_path(_named(reference))}/annotate", {"description": description})
        self.show(done, text=lambda document: showing.version(self, document))

    @verb("datasets alias set", ALIAS, arg("--version", required=True, metavar="vN"))
    def set_dataset_alias(self, reference: str, version: str) -> None:
        """Point an alias at a version."""
        self.show(self.client.put(_alias_path(reference), {"version": version}), text=self._dataset_alias)

    @verb("datasets alias get", ALIAS)
    def get_dataset_alias(self, reference: str) -> None:
        """Show where an alias points, and where it pointed, oldest first."""
        self.show(self.client.get(_alias_path(reference)), text=self._dataset_alias)

    @verb("datasets alias rm", ALIAS)
    def remove_dataset_alias(self, reference: str) -> None:
        """Take an alias away; versions stay."""
        self.client.delete(_alias_path(reference))
        self.show({"reference": reference, "removed": True}, text=lambda _: print(f"Removed {reference}."))

    def _datasets(self, document: dict[str, Any]) -> None:
        self.table(["DATASET", "LATEST", "VERSIONS", "EXAMPLES", "SIZE", "UPDATED"],
                   [[item["reference"], item["latest"], item["versionCount"], item["exampleCount"],
                     showing.size(item["sizeBytes"]), showing.moment(item["updatedAt"])]
                    for item in document["datasets"]], right=["VERSIONS", "EXAMPLES", "SIZE"])

    def _dataset(self, document: dict[str, Any]) -> None:
        aliases = ", ".join(f"{name} → {version}" for name, version in document["aliases"].items())
        self.facts([("Aliases", aliases or "none")], title=document["reference"])
        showing.versions(self, document)

    def _registered_dataset(self, document: dict[str, Any]) -> None:
        print(document["reference"])
        self.say(f"{document['exampleCount']} examples, {showing.size(document['sizeBytes'])}"
                 + ("." if document["isNew"] else "; these examples were registered before."))
        showing.findings(self, document["findings"])

    def _dataset_alias(self, document: dict[str, Any]) -> None:
        self.facts([("Points at", document["version"])], title=document["reference"])
        self.table(["VERSION", "SINCE", "BY"], [[move["version"], showing.moment(move["since"]), move["by"]]
                                                for move in document["history"]])


def _named(text: str) -> Reference:
    """A reference with its namespace. Raises InvalidReference."""
    parsed = parse_reference(text)
    parse_artifact(parsed.artifact)
    return parsed


def _path(reference: Reference) -> str:
    label = str(reference)[len(reference.artifact) + 1:] or LATEST
    return f"{ROUTES}/{reference.artifact}/versions/{label}"


def _alias_path(text: str) -> str:
    parsed = _named(text)
    if not parsed.alias:
        raise InvalidInput(f"{shown(text)} names no alias.", code="invalid_reference", hint="Write NS/NAME:ALIAS.")
    return f"{ROUTES}/{parsed.artifact}/aliases/{parsed.alias}"


def _read_lineage(file: str) -> str:
    if not file:
        return ""
    try:
        return Path(file).read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidInput(f"{file} could not be read: {error}.", code="unreadable_file") from error
