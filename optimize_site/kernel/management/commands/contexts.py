"""`./optimize contexts`: the logins of other boxes, kept in the state folder."""

import json
import os
from pathlib import Path
from typing import Any

from optimize_site.kernel.client import Client, contexts_file, read_contexts
from optimize_site.kernel.commands import NounCommand, arg, verb
from optimize_site.kernel.errors import NotFound


def write_contexts(contexts: dict[str, dict[str, str]]) -> None:
    """Keep the logins, readable by their owner only."""
    path = contexts_file()
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    scratch = path.with_suffix(".part")
    with os.fdopen(os.open(scratch, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
        json.dump(contexts, file, indent=2)
    Path(scratch).replace(path)


class Command(NounCommand):
    noun = "contexts"
    help = "Other boxes that --context can name."

    @verb("add", arg("name"), arg("--url", required=True), arg("--token", required=True), gives=("name", "url"))
    def add(self, name: str, url: str, token: str) -> None:
        """Remember another box; its token is tried first."""
        Client(url.rstrip("/"), token).get("/v1/training/info")
        write_contexts(read_contexts() | {name: {"url": url.rstrip("/"), "token": token}})
        self.show({"name": name, "url": url}, text=lambda _: print(f"--context {name} now speaks to {url}."))

    @verb("list")
    def list(self) -> None:
        """List the boxes known."""
        rows = [{"name": name, "url": login["url"]} for name, login in sorted(read_contexts().items())]
        self.show({"contexts": rows, "total": len(rows)}, text=self._table)

    @verb("remove", arg("name"), gives=("name",))
    def remove(self, name: str) -> None:
        """Forget a box."""
        known = read_contexts()
        if name not in known:
            raise NotFound(f"There is no context {name!r}.", hint=f"Known: {', '.join(sorted(known)) or 'none'}.")
        write_contexts({other: login for other, login in known.items() if other != name})
        self.show({"name": name}, text=lambda _: print(f"Forgot {name}."))

    def _table(self, document: dict[str, Any]) -> None:
        self.table(["CONTEXT", "URL"], [[row["name"], row["url"]] for row in document["contexts"]])
