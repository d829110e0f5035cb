"""`./optimize info`: how the box is configured and what its start did."""

from typing import Any

from optimize_site.kernel.plain import PlainCommand


class Command(PlainCommand):
    noun = "info"
    help = "How the box is configured, which build answers, and what its start did."
    arguments = ()

    def ask(self, **values: object) -> None:
        """Show the configuration, the answering build and the state of the start."""
        self.show(self.client.get("/v1/training/info"), text=self._facts)

    def _facts(self, info: dict[str, Any]) -> None:
        disk = info["disk"]
        self.facts([
            ("Backend", info["backend"]), ("Engine", info["engine"]), ("Engines", ", ".join(info["engines"])),
            ("Build", info["build"]), ("Python", info["python"]), ("Startup", info["startup"]), ("Node", info["node"]),
            ("State folder", info["home"]),
            ("Devices", ", ".join(f"{device['name']} ({device['uuid']})" for device in info["devices"])),
            ("Disk", f"{disk['freeBytes'] / 1024**3:.1f} GiB free of {disk['totalBytes'] / 1024**3:.1f} GiB"
                     + (" (low)" if disk["isLow"] else "")),
            ("Bundles", _bundles(info["bundles"])),
            ("Rollouts", "searched by an index" if info["rolloutSearch"]["indexed"] else info["rolloutSearch"]["note"]),
        ], title="Box")


def _bundles(found: dict[str, Any]) -> str:
    """Which walls stand around a scoring bundle's code, or why it may not run."""
    missing = "; ".join(f"no {wall}: {reason}" for wall, reason in found["missing"].items())
    if found["isSandbox"]:
        return f"scored in a sandbox of {', '.join(found['walls'])}" + (f" ({missing})" if missing else "")
    return ("scored WITHOUT a sandbox, as the settings allow" if found["unsandboxedAllowed"] else
            "refused, this machine gives no sandbox") + f" ({missing})"
