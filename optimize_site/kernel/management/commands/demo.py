"""`./optimize demo`: from a fresh box to a promoted model."""

import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import httpx

from optimize_site.demo import Demo
from optimize_site.kernel.commands import EXIT_ERROR, arg
from optimize_site.kernel.conf import home
from optimize_site.kernel.plain import PlainCommand
from optimize_site.services import web_url
from optimize_site.settings import BASE_DIR

LAUNCHER = Path(BASE_DIR) / "optimize"
SERVICES = "OPTIMIZE_SERVICES_SECONDS"


class Command(PlainCommand):
    noun = "demo"
    help = "Prepare a base model, train on the shipped tickets, score before and after, promote."
    arguments = (arg("--stop-after", action="store_true", help="stop the box at the end"),
                 arg("--base-model", default="", metavar="REPO", help="another base model than the example names"),
                 arg("--example", type=Path, default=None, metavar="FOLDER",
                     help="another folder with run.json, train.jsonl and eval.jsonl"))

    def ask(self, **values: Any) -> int:
        """Start the box if it is not up, then do the main job."""
        if not box_answers():
            return start_and_return()
        options = {} if values["example"] is None else {"example": values["example"]}
        demo = Demo(self.client, tell=self.say, base_model=values["base_model"], **options)
        demo.seconds = {"install": float(os.environ.get("OPTIMIZE_INSTALL_SECONDS", 0)),
                        "services": float(os.environ.get(SERVICES, 0))}
        self.show(demo.run(web_url(home())), text=self._summary)
        if values["stop_after"]:
            return subprocess.run([str(LAUNCHER), "down"], stdout=sys.stderr, check=False).returncode
        return 0

    def _summary(self, document: dict[str, Any]) -> None:
        baseline, candidate = document["baseline"], document["candidate"]
        self.facts([("Before", f"{baseline['meanScore']:.4f} mean score (the untouched base)"),
                    ("After", f"{candidate['meanScore']:.4f} mean score on the same held-out tickets"),
                    ("Champion", document["champion"]), ("Look", document["url"]),
                    ("Took", ", ".join(f"{name} {seconds:.0f}s" for name, seconds in document["seconds"].items()))])


def box_answers() -> bool:
    """Whether the box of this state folder is up."""
    try:
        return httpx.get(f"{web_url(home())}/readyz", timeout=3).status_code == 200 and (
            home() / "run" / "services.json").exists()
    except httpx.TransportError:
        return False


def start_and_return() -> int:
    """Start the box detached, then run this command again in a process that knows where its services are."""
    began = time.monotonic()
    if subprocess.run([str(LAUNCHER), "up", "--detach"], stdout=sys.stderr, check=False).returncode != 0:
        return EXIT_ERROR
    os.environ[SERVICES] = f"{time.monotonic() - began:.1f}"
    if not box_answers():
        print("The box started but its web does not answer; see `./optimize logs web`.", file=sys.stderr)
        return EXIT_ERROR
    again = [sys.executable, str(Path(BASE_DIR) / "manage.py"), *sys.argv[1:]]
    return subprocess.run(again, check=False).returncode
