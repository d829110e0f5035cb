"""`registry datasets …`."""

import json
import sys
from typing import Any
from urllib.parse import quote

from datasets import sending, showing
from optimize_site.kernel.commands import NounCommand, arg, verb
from registry.commands.shown import ARCHIVED, LIMIT, OFFSET, address_of_version, kin, marked, read_lineage
from registry.references import parse_artifact

ROUTES = "/v1/registry/datasets"
DATASET = arg("reference", metavar="NS/NAME[:REF]")
NAMED = arg("reference", metavar="NS/NAME")


class DatasetVerbs(NounCommand):
    """What can be done with named datasets."""

    @verb("datasets list", arg("--namespace", default=""), ARCHIVED, LIMIT, OFFSET)
    def list_datasets(self, namespace: str, archived: bool, limit: int, offset: int) -> None:
        """List named datasets."""
        found = self.client.get(ROUTES, namespace=namespace, archived=archived, limit=limit, offset=offset)
        self.show(found, text=self._datasets)

    @verb("datasets versions", NAMED, LIMIT, OFFSET)
    def list_dataset_versions(self, reference: str, limit: int, offset: int) -> None:
        """List a dataset's versions, newest first."""
        path = f"{ROUTES}/{parse_artifact(reference)}/versions"
        self.show(self.client.get(path, limit=limit, offset=offset),
                  text=lambda document: showing.versions(self, document))

    @verb("datasets get", DATASET)
    def get_dataset(self, reference: str) -> None:
        """Show a dataset's versions and aliases, or one version and what it holds."""
        self.show(self.client.get(address_of_version(ROUTES, reference, named=True)), text=self._dataset)

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
                            lineage=json.dumps(read_lineage(lineage)) if lineage else "")
        self.show(done, text=self._registered_dataset)

    @verb("datasets object", DATASET, arg("path", help="the object's path, as the version lists it"))
    def get_dataset_object(self, reference: str, path: str) -> None:
        """Write an object's bytes to standard output."""
        route = f"{address_of_version(ROUTES, reference)}/objects/{quote(path, safe='')}"
        self.client.download(route, sys.stdout.buffer)
        sys.stdout.buffer.flush()

    @verb("datasets annotate", DATASET, arg("--description", help="an empty text clears it"))
    def annotate_dataset(self, reference: str, description: str | None) -> None:
        """Set the note on a version, the newest where none is named."""
        done = self.client.post(f"{address_of_version(ROUTES, reference)}/annotate", {"description": description})
        self.show(done, text=self._dataset)

    def _datasets(self, document: dict[str, Any]) -> None:
        self.table(["DATASET", "LATEST", "VERSIONS", "EXAMPLES", "SIZE", "UPDATED"],
                   [[marked(item["reference"], item), item["latest"], item["versionCount"], item["exampleCount"],
                     showing.size(item["sizeBytes"]), showing.moment(item["updatedAt"])]
                    for item in document["datasets"]], right=["VERSIONS", "EXAMPLES", "SIZE"])

    def _dataset(self, document: dict[str, Any]) -> None:
        if "versions" not in document:
            showing.version(self, document)
            self.facts(kin(document))
            return
        aliases = ", ".join(f"{name} → {version}" for name, version in document["aliases"].items())
        self.facts([("Aliases", aliases or "none")], title=marked(document["reference"], document))
        showing.versions(self, document)

    def _registered_dataset(self, document: dict[str, Any]) -> None:
        print(document["reference"])
        self.say(f"{document['exampleCount']} examples, {showing.size(document['sizeBytes'])}"
                 + ("." if document["isNew"] else "; these examples were registered before."))
        showing.findings(self, document["findings"])
