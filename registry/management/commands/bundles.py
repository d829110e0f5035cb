"""`./optimize bundles`: bundles by hash and bare name."""

from typing import Any

from optimize_site.kernel.commands import NounCommand, arg, verb
from registry.bundle_render import registered_document
from registry.commands.bundles import bundle_address, send_archive


class Command(NounCommand):
    noun = "bundles"
    help = "Bundles by hash and bare name; `registry bundles` has them by namespace and version."

    @verb("push", arg("path", metavar="PATH", help="a ZIP, or a folder that is packed"),
          arg("--name", default="", help="a bare name to give it, or to move to it"), gives=(registered_document,))
    def push(self, path: str, name: str) -> None:
        """Register a ZIP or a folder; what is held already is not sent again."""
        self.show(send_archive(self, path, "/v1/bundles/held", "/v1/bundles", {"name": name}), text=self._pushed)

    @verb("get", arg("bundle", help="a hash, a prefix of one, a name or a reference"))
    def get(self, bundle: str) -> None:
        """Show a bundle: its hash and the files in it."""
        self.show(self.client.get(bundle_address(bundle)), text=self._files)

    def _pushed(self, document: dict[str, Any]) -> None:
        print(document["hash"])
        self.say(f"{document['reference']}, {len(document['files'])} files"
                 + ("." if document["isNew"] else "; these bytes were registered before."))

    def _files(self, document: dict[str, Any]) -> None:
        self.facts([("Hash", document["hash"]), ("Reference", document["reference"])], title=document["name"])
        self.table(["FILE", "BYTES"], [[item["path"], item["bytes"]] for item in document["files"]], right=["BYTES"])
