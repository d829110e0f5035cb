"""`registry namespaces …` and `registry info`."""

from typing import Any
from urllib.parse import quote

from optimize_site.kernel.commands import NounCommand, arg, verb


class NamespaceVerbs(NounCommand):
    """What can be said of namespaces, and of the registry itself."""

    @verb("info")
    def info(self) -> None:
        """Show what the registry takes."""
        self.show(self.client.get("/v1/registry/info"), text=self._limits)

    @verb("namespaces list", arg("--limit", type=int, default=50), arg("--offset", type=int, default=0))
    def list_namespaces(self, limit: int, offset: int) -> None:
        """List namespaces with what they hold."""
        self.show(self.client.get("/v1/registry/namespaces", limit=limit, offset=offset), text=self._namespaces)

    @verb("namespaces get", arg("namespace"))
    def get_namespace(self, namespace: str) -> None:
        """Show what a namespace holds, by name."""
        self.show(self.client.get(f"/v1/registry/namespaces/{quote(namespace, safe='')}"), text=self._namespace)

    @verb("namespaces annotate", arg("namespace"), arg("--description", help="an empty text clears it"))
    def annotate_namespace(self, namespace: str, description: str | None) -> None:
        """Set the note on a namespace."""
        path = f"/v1/registry/namespaces/{quote(namespace, safe='')}/annotate"
        self.show(self.client.post(path, {"description": description}), text=self._namespace)

    def _limits(self, document: dict[str, Any]) -> None:
        self.facts([("Area", document["area"]), ("Largest upload", f"{document['datasets']['maxBytes']:,} bytes")])

    def _namespaces(self, document: dict[str, Any]) -> None:
        self.table(["NAMESPACE", "DATASETS", "MODELS", "BUNDLES", "DESCRIPTION"],
                   [[item["name"], item["datasets"], item["models"], item["bundles"], item["description"]]
                    for item in document["namespaces"]], right=["DATASETS", "MODELS", "BUNDLES"])

    def _namespace(self, document: dict[str, Any]) -> None:
        self.facts([(kind.capitalize(), ", ".join(document[kind]) or "none") for kind in
                    ("datasets", "models", "bundles")] + [("Description", document["description"] or None)],
                   title=document["name"])
