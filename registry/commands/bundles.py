"""`registry bundles …`, and how a folder or a ZIP is sent."""

import hashlib
import json
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any
from urllib.parse import quote

from optimize_site.kernel.archives import pack_folder
from optimize_site.kernel.blobs import read_chunks
from optimize_site.kernel.commands import NounCommand, arg, verb
from optimize_site.kernel.errors import InvalidInput, OperationError, TooLarge
from registry.bundle_render import registered_document, version_document
from registry.commands.shown import ARCHIVED, LIMIT, OFFSET, address_of_version, kin, marked, read_lineage
from registry.references import parse_artifact

ROUTES = "/v1/registry/bundles"
BUNDLE = arg("reference", metavar="NS/NAME[:REF]")
NAMED = arg("reference", metavar="NS/NAME")
FILE = arg("-f", "--file", required=True, metavar="ZIP_OR_FOLDER")
CACHES = "__pycache__"


class BundleVerbs(NounCommand):
    """Mixed into the `registry` command."""

    @verb("bundles list", arg("--namespace", default=""), ARCHIVED, LIMIT, OFFSET)
    def list_bundles(self, namespace: str, archived: bool, limit: int, offset: int) -> None:
        """List named bundles."""
        found = self.client.get(ROUTES, namespace=namespace, archived=archived, limit=limit, offset=offset)
        self.show(found, text=lambda document: self.table(
            ["BUNDLE", "LATEST", "VERSIONS", "HASH", "ALIASES"],
            [[marked(row["reference"], row), row["latest"], row["versions"], (row["hash"] or "")[:12],
              ", ".join(f"{name} {version}" for name, version in row["aliases"].items())]
             for row in document["bundles"]], right=["VERSIONS"]))

    @verb("bundles versions", NAMED, LIMIT, OFFSET)
    def list_bundle_versions(self, reference: str, limit: int, offset: int) -> None:
        """List a bundle's versions, newest first."""
        found = self.client.get(f"{ROUTES}/{parse_artifact(reference)}/versions", limit=limit, offset=offset)
        self.show(found, text=lambda document: self._bundle_versions(document["versions"]))

    @verb("bundles get", BUNDLE)
    def get_bundle(self, reference: str) -> None:
        """Show a bundle's versions and aliases, or one version and the files in it."""
        self.show(self.client.get(address_of_version(ROUTES, reference, named=True)), text=self._bundle)

    @verb("bundles register", NAMED, FILE, arg("--alias", default="", help="an alias to set on the version"),
          arg("--lineage", default="", metavar="FILE", help="JSON that says where it came from"),
          arg("--description", default=""), gives=(registered_document,))
    def register_bundle(self, reference: str, file: str, alias: str, lineage: str, description: str) -> None:
        """Register a ZIP, or a folder packed alike everywhere, as the next version of a bundle."""
        route = f"{ROUTES}/{parse_artifact(reference)}"
        stated = read_lineage(lineage)
        done = send_archive(self, file, f"{route}/held", f"{route}/versions",
                            {"alias": alias, "description": description, "lineage": stated})
        self.show(done, text=lambda document: self._registered_bundle(document, document["reference"]))

    @verb("bundles download", BUNDLE, arg("-f", "--file", default="-", metavar="FILE", help="- is standard output"))
    def download_bundle(self, reference: str, file: str) -> None:
        """Write the exact ZIP that was registered."""
        route = f"{address_of_version(ROUTES, reference)}/bundle.zip"
        if file == "-":
            self.client.download(route, sys.stdout.buffer)
            sys.stdout.buffer.flush()
            return
        with Path(file).open("wb") as target:
            self.client.download(route, target)
        self.say(f"Saved {file} ({Path(file).stat().st_size:,} bytes).")

    @verb("bundles annotate", BUNDLE, arg("--description", help="an empty text clears it"), gives=(version_document,))
    def annotate_bundle(self, reference: str, description: str | None) -> None:
        """Set the note on a version, the newest where none is named."""
        done = self.client.post(f"{address_of_version(ROUTES, reference)}/annotate", {"description": description})
        self.show(done, text=self._bundle)

    def _bundle_versions(self, versions: list[dict[str, Any]]) -> None:
        self.table(["VERSION", "HASH", "SIZE", "ALIASES", "REGISTERED", "BY"],
                   [[row["reference"], row["hash"][:12], f"{row['sizeBytes']:,}", ", ".join(row["aliases"]),
                     row["createdAt"][:16].replace("T", " "), row["createdBy"]] for row in versions], right=["SIZE"])

    def _bundle(self, found: dict[str, Any]) -> None:
        if "versions" in found and isinstance(found["versions"], list):
            aliases = ", ".join(f"{name} → {version}" for name, version in found["aliases"].items())
            self.facts([("Aliases", aliases or "none")], title=marked(found["reference"], found))
            self._bundle_versions(found["versions"])
            return
        self.facts([("Hash", found["hash"]), ("Digest", found["digest"]), ("Size", f"{found['sizeBytes']:,} bytes"),
                    ("Aliases", ", ".join(found["aliases"]) or None), ("Description", found["description"] or None),
                    *kin(found), ("Registered", f"{found['createdAt'][:16]} by {found['createdBy']}")],
                   title=marked(found["reference"], found))
        self.table(["FILE", "BYTES"], [[item["path"], item["bytes"]] for item in found["files"]], right=["BYTES"])

    def _registered_bundle(self, document: dict[str, Any], printed: str) -> None:
        print(printed)
        self.say(f"{len(document['files'])} files, {document['sizeBytes']:,} bytes"
                 + ("." if document["isNew"] else "; these bytes were registered before."))


def send_archive(command: NounCommand, file: str, held: str, route: str, stated: dict[str, Any]) -> Any:
    """Register a ZIP or a packed folder; its bytes are sent only where the box does not hold them yet."""
    with archive_of(command, file) as (stream, sha256):
        limit = command.client.get("/v1/registry/info")["bundles"]["maxBytes"]
        size = stream.seek(0, 2)
        stream.seek(0)
        if size > limit:
            raise TooLarge(f"{file} comes to {size:,} bytes; this box takes {limit:,}.",
                           hint="Leave out what the work does not read.")
        try:
            return command.client.post(held, {"sha256": sha256} | stated)
        except OperationError as error:
            if error.code != "bundle_not_held":
                raise
        return command.client.send_file(route, stream, **as_query(stated))


def as_query(stated: dict[str, Any]) -> dict[str, str]:
    """What is said beside a body, as the query of its route."""
    return {name: json.dumps(value) if isinstance(value, dict) else value for name, value in stated.items() if value}


@contextmanager
def archive_of(command: NounCommand, file: str) -> Iterator[tuple[IO[bytes], str]]:
    """A ZIP as it is, or a folder packed into one, and its SHA-256. Raises InvalidInput."""
    path = Path(file)
    if not path.exists():
        raise InvalidInput(f"There is no file or folder {file}.", code="unreadable_file")
    with tempfile.TemporaryFile() if path.is_dir() else path.open("rb") as stream:
        if path.is_dir():
            names = pack_folder(path, stream)
            if any(CACHES in name.split("/") for name in names):
                command.say(f"{file} holds {CACHES}, which is packed too: another Python would give another bundle.")
        stream.seek(0)
        digest = hashlib.sha256()
        for chunk in read_chunks(stream):
            digest.update(chunk)
        stream.seek(0)
        yield stream, digest.hexdigest()


def bundle_address(bundle: str) -> str:
    """The route of a bundle by hash, prefix, name or reference."""
    return f"/v1/bundles/{quote(bundle, safe='/:@')}"
