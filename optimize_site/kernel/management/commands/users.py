"""`./optimize users`: people's accounts."""

from typing import Any
from urllib.parse import quote

from optimize_site.kernel.accounts import user_document
from optimize_site.kernel.auth import ROLES
from optimize_site.kernel.commands import NounCommand, arg, verb


class Command(NounCommand):
    noun = "users"
    help = "People's accounts and roles."

    @verb("create", arg("username"), arg("--role", choices=ROLES, default="operator"),
          arg("--password", default="", help="made and printed where left out"), gives=(user_document, "password"))
    def create(self, username: str, role: str, password: str) -> None:
        """Make an account."""
        made = self.client.post("/v1/box/users", {"username": username, "role": role, "password": password})
        self.show(made, text=lambda user: print(f"User {user['username']} ({user['role']}), password: "
                                                f"{user['password']}"))

    @verb("list")
    def list(self) -> None:
        """List accounts."""
        self.show(self.client.get("/v1/box/users"), text=self._table)

    @verb("reset-password", arg("username"), arg("--password", default=""), gives=("username", "password"))
    def reset_password(self, username: str, password: str) -> None:
        """Give an account a new password, which is printed once."""
        made = self.client.post(self._route(username, "reset-password"), {"password": password})
        self.show(made, text=lambda user: print(user["password"]))

    @verb("role", arg("username"), arg("role", choices=ROLES), gives=(user_document,))
    def role(self, username: str, role: str) -> None:
        """Give an account another role."""
        self.show(self.client.post(self._route(username, "role"), {"role": role}),
                  text=lambda user: print(f"{user['username']} is now a {user['role']}."))

    @verb("disable", arg("username"), gives=(user_document,))
    def disable(self, username: str) -> None:
        """Shut an account out, tokens and all."""
        self.show(self.client.post(self._route(username, "disable")), text=lambda _: print(f"{username} is out."))

    @verb("enable", arg("username"), gives=(user_document,))
    def enable(self, username: str) -> None:
        """Let an account in again."""
        self.show(self.client.post(self._route(username, "enable")), text=lambda _: print(f"{username} is in."))

    def _route(self, username: str, act: str) -> str:
        return f"/v1/box/users/{quote(username, safe='')}/{act}"

    def _table(self, document: dict[str, Any]) -> None:
        self.table(["USER", "ROLE", "STATE", "LAST SIGN-IN"],
                   [[user["username"], user["role"], "active" if user["isActive"] else "disabled", user["lastLogin"]]
                    for user in document["users"]])
