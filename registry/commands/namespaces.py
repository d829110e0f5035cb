"""`registry namespaces …`, `registry info` and `registry gc`."""

from typing import Any
from urllib.parse import quote

from optimize_site.kernel.commands import NounCommand, arg, verb
from registry.commands.shown import ARCHIVED, LIMIT, OFFSET, marked
from registry.garbage_render import garbage_document
from registry.render import namespace_document

ROUTE = "/v1/registry/namespaces"


class NamespaceVerbs(NounCommand):
    """What can be said of namespaces, and of the registry itself."""

    @verb("info")
    def info(self) -> None:
        """Show what the registry takes."""
        self.show(self.client.get("/v1/registry/info"), text=self._limits)

    @verb("namespaces list", ARCHIVED, LIMIT, OFFSET)
    def list_namespaces(self, archived: bool, limit: int, offset: int) -> None:
        """List namespaces with what they hold."""
        self.show(self.client.get(ROUTE, archived=archived, limit=limit, offset=offset), text=self._namespaces)

    @verb("namespaces get", arg("namespace"))
    def get_namespace(self, namespace: str) -> None:
        """Show what a namespace holds, by name."""
        self.show(self.client.get(_address(namespace)), text=self._namespace)

    @verb("namespaces annotate", arg("namespace"), arg("--description", help="an empty text clears it"),
          gives=(namespace_document,))
    def annotate_namespace(self, namespace: str, description: str | None) -> None:
        """Set the note on a namespace."""
        done = self.client.post(f"{_address(namespace)}/annotate", {"description": description})
        self.show(done, text=self._namespace)

    @verb("namespaces archive", arg("namespace"), gives=(namespace_document,))
    def archive_namespace(self, namespace: str) -> None:
        """Take a namespace whose work is finished out of the lists; nothing can be registered in it then."""
        self.confirm(f"Archive the namespace {namespace}?", needs_force=True)
        self.show(self.client.post(f"{_address(namespace)}/archive"), text=lambda document: print(
            f"The namespace {document['name']} is archived; "
            f"`./optimize registry namespaces unarchive {document['name']}` brings it back."))

    @verb("namespaces unarchive", arg("namespace"), gives=(namespace_document,))
    def unarchive_namespace(self, namespace: str) -> None:
        """Bring an archived namespace back."""
        self.show(self.client.post(f"{_address(namespace)}/unarchive"),
                  text=lambda document: print(f"The namespace {document['name']} is open."))

    @verb("gc", arg("--dry-run", action="store_true", help="say what would go, remove nothing"),
          gives=(garbage_document,))
    def collect_garbage(self, dry_run: bool) -> None:
        """Remove stored bytes and folders that nothing refers to."""
        if not dry_run:
            self.confirm("Remove what nothing on this box refers to?", needs_force=True)
        self.show(self.client.post("/v1/registry/gc", {"dryRun": dry_run}), text=self._garbage)

    def _garbage(self, document: dict[str, Any]) -> None:
        items = document["items"]
        if items:
            self.table(["KIND", "NAME", "BYTES", "SINCE"],
                       [[item["kind"], item["name"], f"{item['sizeBytes']:,}", item["since"][:16].replace("T", " ")]
                        for item in items], right=["BYTES"])
        done = "would go" if document["dryRun"] else "are gone"
        print(f"{len(items)} things of {document['sizeBytes']:,} bytes {done}." if items else "There is no garbage.")
        if document["keptMeanwhile"]:
            self.say(f"{document['keptMeanwhile']} were taken up again meanwhile and stay.")

    def _limits(self, document: dict[str, Any]) -> None:
        self.facts([("Area", document["area"]), ("Largest upload", f"{document['datasets']['maxBytes']:,} bytes")])

    def _namespaces(self, document: dict[str, Any]) -> None:
        self.table(["NAMESPACE", "DATASETS", "MODELS", "BUNDLES", "DESCRIPTION"],
                   [[marked(item["name"], item), item["datasets"], item["models"], item["bundles"], item["description"]]
                    for item in document["namespaces"]], right=["DATASETS", "MODELS", "BUNDLES"])

    def _namespace(self, document: dict[str, Any]) -> None:
        self.facts([(kind.capitalize(), ", ".join(document[kind]) or "none") for kind in
                    ("datasets", "models", "bundles")] + [("Description", document["description"] or None)],
                   title=marked(document["name"], document))


def _address(namespace: str) -> str:
    return f"{ROUTE}/{quote(namespace, safe='')}"
