"""`./optimize tokens`: bearer tokens for programs."""

from typing import Any
from urllib.parse import quote

from optimize_site.kernel.accounts import token_document
from optimize_site.kernel.commands import NounCommand, arg, verb


class Command(NounCommand):
    noun = "tokens"
    help = "Bearer tokens for programs."

    @verb("create", arg("name"), arg("--user", default="admin", help="whose token it is"),
          gives=(token_document, "token"))
    def create(self, name: str, user: str) -> None:
        """Make a token; its text is printed once."""
        made = self.client.post("/v1/box/tokens", {"name": name, "user": user})
        self.show(made, text=lambda document: print(document["token"]))
        self.say(f"This is the only time the token is shown. It acts as {user}.")

    @verb("list")
    def list(self) -> None:
        """List tokens by their visible beginning."""
        self.show(self.client.get("/v1/box/tokens"), text=self._table)

    @verb("revoke", arg("token", help="its name or visible beginning"), gives=(token_document,))
    def revoke(self, token: str) -> None:
        """End a token."""
        ended = self.client.post(f"/v1/box/tokens/{quote(token, safe='')}/revoke")
        self.show(ended, text=lambda _: print(f"Revoked {token}."))

    def _table(self, document: dict[str, Any]) -> None:
        self.table(["NAME", "TOKEN", "USER", "CREATED", "LAST USED", "STATE"],
                   [[token["name"], token["shown"] + "…", token["user"], token["createdAt"], token["lastUsedAt"],
                     "revoked" if token["revokedAt"] else "live"] for token in document["tokens"]])
