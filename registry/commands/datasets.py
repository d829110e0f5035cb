"""`registry datasets …`."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

from datasets import render, sending, sending_images, sending_shards, showing
from datasets.cutting import parse_size
from datasets.importers.convert import KINDS
from datasets.importers.report import Report
from datasets.importers.verbs import AUTO, FLAGS, Told, imported, told
from datasets.validating import check_file
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
          arg("-f", "--file", required=True,
              help="rows, one JSON object a line, or the ZIP of a format that is sent so; - is standard input"),
          arg("--alias", default="", help="an alias to set on the version"),
          arg("--format", default="", help="the format, where the file does not say it"),
          arg("--lineage", default="", metavar="FILE", help="JSON that says where the data came from"),
          arg("--description", default=""),
          arg("--shard-size", default="", metavar="SIZE",
              help="cut the file into shards of at most this size, such as 64MiB, and send those one at a time; a file "
                   "over 256MiB is cut in any case"),
          arg("--no-upload", action="store_true",
              help="check the file here, say which images the box lacks, and register nothing"),
          arg("--import", dest="kind", nargs="?", const=AUTO, default="", choices=[AUTO, *KINDS], metavar="KIND",
              help=f"the file is another tool's: {', '.join(KINDS)}, or told from its records"), *FLAGS,
          gives=(render.registered, "import"))
    def register_dataset(self, reference: str, file: str, alias: str, format: str, lineage: str, description: str,
                         shard_size: str, no_upload: bool, kind: str, map: list[str], keep: list[str], split: str,
                         skip_refused: bool) -> None:
        """Register a file as the next version of a dataset; the same examples give the version there is.

        Stopped, it goes on where it was when it is run again within seven days.
        """
        parse_artifact(reference)
        how = told(kind, map=map, keep=keep, split=split, skip_refused=skip_refused)
        shard_bytes = parse_size(shard_size) if shard_size else None
        with self._rows_of(file, how) as (path, report):
            about = {"import": report and report.document()}
            if no_upload:
                self.show(self._checked_dataset(file, path, shard_bytes) | about, text=self._nothing_registered)
                return
            stated: dict[str, Any] = {"alias": alias, "format": format, "description": description}
            if lineage:
                stated["lineage"] = read_lineage(lineage)
            self.show_made(sending_shards.register(self, reference, path, shard_bytes, stated) | about, "reference",
                           text=self._registered_dataset)

    @contextmanager
    def _rows_of(self, file: str, how: Told | None) -> Iterator[tuple[Path, Report | None]]:
        """The file of rows to register, and what an import did, where it was one."""
        if how is not None:
            with imported(self, file, how) as found:
                yield found
            return
        with sending.on_disk(file) as path:
            yield path, None

    def _checked_dataset(self, file: str, path: Path, shard_bytes: int | None) -> dict[str, Any]:
        """What registering the file would send, after it was checked here."""
        found = check_file(path)
        shards = 1 if sending.is_archive(path) else len(sending_shards.plan(self, path, shard_bytes))
        lacking = sending_images.missing(self, sending_images.images_beside(path)) if found["imageCount"] else []
        return {"file": file} | found | {"shardCount": shards, "missingImages": [image.path for image in lacking]}

    def _nothing_registered(self, document: dict[str, Any]) -> None:
        number, shards, lacking = document["exampleCount"], document["shardCount"], document["missingImages"]
        missing = f"{len(lacking)} images missing: {', '.join(lacking[:5])}" if lacking else "no image missing"
        print(f"{number} rows{f' in {shards} shards' if shards > 1 else ''}, {missing}. Nothing was registered.")

    @verb("datasets uploads", LIMIT, OFFSET)
    def list_dataset_uploads(self, limit: int, offset: int) -> None:
        """List uploads that were stopped before they were registered, newest first."""
        self.show(self.client.get(sending_shards.ROUTES, limit=limit, offset=offset), text=self._uploads)

    @verb("datasets abandon", arg("upload", help="the ID that `uploads` shows"), gives=("id", "abandoned"))
    def abandon_dataset_upload(self, upload: str) -> None:
        """Give up an upload that was stopped; what it sent may be collected as garbage."""
        self.client.post(f"{sending_shards.ROUTES}/{quote(upload, safe='')}/abandon")
        self.show({"id": upload, "abandoned": True}, text=lambda _: print(f"Gave up {upload}."))

    def _uploads(self, document: dict[str, Any]) -> None:
        self.table(["UPLOAD", "DATASET", "SHARDS", "SIZE", "OPENED", "KEPT UNTIL", "BY"],
                   [[item["id"], item["reference"], item["shardCount"], showing.size(item["sizeBytes"]),
                     showing.moment(item["createdAt"]), showing.moment(item["expiresAt"]), item["createdBy"]]
                    for item in document["uploads"]], right=["SHARDS", "SIZE"])

    @verb("datasets object", DATASET, arg("path", help="the object's path, as the version lists it"))
    def get_dataset_object(self, reference: str, path: str) -> None:
        """Write an object's bytes to standard output."""
        route = f"{address_of_version(ROUTES, reference)}/objects/{quote(path, safe='')}"
        self.client.download(route, sys.stdout.buffer)
        sys.stdout.buffer.flush()

    @verb("datasets annotate", DATASET, arg("--description", help="an empty text clears it"),
          gives=(render.dataset_version,))
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
