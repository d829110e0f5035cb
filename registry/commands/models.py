"""The verbs of `registry models`."""

import json
import sys
from pathlib import Path
from typing import Any
from urllib.parse import quote

from optimize_site.kernel.commands import (
    EXIT_CANCELLED,
    EXIT_DONE,
    EXIT_WORK_FAILED,
    NounCommand,
    arg,
    read_document,
    verb,
)
from registry.commands.bundles import archive_of
from registry.commands.shown import ARCHIVED, LIMIT, OFFSET, kin, marked
from registry.model_render import version_document

ROUTE, TRIALS = "/v1/registry/models", "/v1/training/trials"
NAME = arg("model", metavar="NS/NAME")
VERSION = arg("model", metavar="NS/NAME[:REF]", help="or a model ID")
DESCRIPTOR = arg("-f", "--file", required=True, metavar="FILE", help="JSON or YAML; - for standard input")
ADAPTER = arg("--adapter", default="", metavar="ZIP_OR_FOLDER",
              help="adapter_config.json and adapter_model.safetensors, where the descriptor is of an adapter")
TRIAL = ("trialId", "phase", "modelId", "model", "messages", "answers", "settings", "createdAt", "endedAt", "stage",
         "waitReason", "attempts", "cancelRequested", "failureCode", "failureReason", "failureHint", "deviceSeconds",
         "timing", "createdBy")
"""The fields of a trial, whose document a higher layer makes."""
OVER = {"COMPLETED": EXIT_DONE, "FAILED": EXIT_WORK_FAILED, "CANCELLED": EXIT_CANCELLED}


class ModelVerbs(NounCommand):
    """Mixed into the `registry` command."""

    @verb("models list", arg("--namespace", "--project", "--workload", dest="namespace", default="", metavar="NS"),
          ARCHIVED, LIMIT, OFFSET)
    def list_models(self, namespace: str, archived: bool, limit: int, offset: int) -> None:
        """Show the named models."""
        found = self.client.get(ROUTE, namespace=namespace, archived=archived, limit=limit, offset=offset)
        self.show(found, text=lambda document: self.table(
            ["MODEL", "LATEST", "VERSIONS", "BASE MODEL", "ALIASES"],
            [[marked(row["reference"], row), row["latest"], row["versions"], row["baseModel"], _aliases(row["aliases"])]
             for row in document["models"]], right=["VERSIONS"]))

    @verb("models versions", NAME, arg("--base-model", default="", metavar="REPO_OR_VERSION"),
          arg("--produced-by-kind", default="", metavar="KIND", help="such as run"),
          arg("--produced-by-id", default="", metavar="ID", help="RUN_ID, or RUN_ID#STEP for a checkpoint's"), LIMIT,
          OFFSET)
    def list_model_versions(self, model: str, base_model: str, produced_by_kind: str, produced_by_id: str, limit: int,
                            offset: int) -> None:
        """Show a model's versions, newest first."""
        found = self.client.get(f"{address(model)}/versions", baseModel=base_model, producedByKind=produced_by_kind,
                                producedById=produced_by_id, limit=limit, offset=offset)
        self.show(found, text=lambda document: self._versions(document["versions"]))

    @verb("models get", VERSION)
    def get_model(self, model: str) -> None:
        """Show a model's versions and aliases, or one version's descriptor, files and lineage."""
        self.show(self.client.get(address(model)), text=self._model)

    @verb("models card", VERSION)
    def model_card(self, model: str) -> None:
        """Print the model card."""
        self.client.download(f"{address(model)}/card", sys.stdout.buffer)

    @verb("models download", VERSION, arg("-f", "--file", default="", metavar="FILE", help="- for standard output"))
    def download_model(self, model: str, file: str) -> None:
        """Save the adapter with its card as a ZIP."""
        if file == "-":
            self.client.download(f"{address(model)}/adapter.zip", sys.stdout.buffer)
            return
        path = Path(file or f"{model.rpartition('/')[2].replace(':', '-')}.zip")
        with path.open("wb") as target:
            self.client.download(f"{address(model)}/adapter.zip", target)
        self.say(f"Saved {path} ({path.stat().st_size / 1e6:.1f} MB).")

    @verb("models register", NAME, DESCRIPTOR, ADAPTER, arg("--alias", default=""), gives=(version_document,))
    def register_model(self, model: str, file: str, adapter: str, alias: str) -> None:
        """Register a base model from a descriptor, or an adapter from elsewhere with its two files."""
        done = send_model(self, file, adapter, register=f"{address(model)}/register", send=f"{address(model)}/versions",
                          alias=alias)
        self.show(done, text=lambda document: print(document["reference"]))

    @verb("models annotate", VERSION, arg("--description", default=None, help="an empty text clears it"),
          gives=(version_document,))
    def annotate_model(self, model: str, description: str | None) -> None:
        """Set or clear the note on a version."""
        self.show(self.client.post(f"{address(model)}/annotate", {"description": description}), text=self._model)

    @verb("models try", VERSION, arg("--input", required=True, metavar="TEXT", help="- for standard input"),
          arg("--instructions", default="", metavar="TEXT", help="the system message"), gives=TRIAL)
    def try_model(self, model: str, input: str, instructions: str) -> int:
        """Ask a model one thing, with its base model's answer beside it."""
        text = sys.stdin.read() if input == "-" else input
        started = self.client.post(TRIALS, {"model": model, "input": text, "instructions": instructions})
        found, _ = self.watch(f"{TRIALS}/{started['trialId']}", timeout=None, is_over=lambda doc: doc["phase"] in OVER,
                              each=lambda doc: self.say(doc["phase"]) if doc["phase"] not in OVER else None)
        self.show(found, text=self._trial)
        return OVER[found["phase"]]

    def _versions(self, versions: list[dict[str, Any]]) -> None:
        self.table(["VERSION", "MODEL ID", "VARIANT", "BASE MODEL", "RANK", "RUN", "CREATED"],
                   [[row["reference"], row["modelId"][:12], row["variant"], row["baseModel"], row["adapterRank"],
                     (row["runId"] or "")[:12], row["createdAt"][:16]] for row in versions], right=["RANK"])

    def _model(self, found: dict[str, Any]) -> None:
        if isinstance(found.get("versions"), list):
            aliases = _aliases(found["aliases"]) or "none"
            self.facts([("Model", marked(found["reference"], found)), ("Aliases", aliases)], title="Model")
            print()
            self._versions(found["versions"])
            return
        serving = found["servingModel"]
        rank = f"adapter over {found['baseModel']}, rank {found['adapterRank']}"
        modules = ", ".join(serving.get("targetModules", []))
        self.facts([
            ("Version", marked(found["reference"], found)), ("Model ID", found["modelId"]), ("Digest", found["digest"]),
            ("Registered", f"{found['createdAt'][:16]} by {found['createdBy']}"),
            ("Aliases", ", ".join(found["aliases"]) or None), ("Lifecycle", found["lifecycle"]),
            ("Base model", found["baseModel"]),
            *kin(found),
            ("Produced by", f"{found['producedByKind']} {found['producedById']}" if found["producedByKind"] else None),
            ("Serving", rank if found["adapterRank"] else "base model"), ("Artifact", serving.get("ref")),
            ("Modules", modules or None),
            ("Workload", found["workload"]), ("Description", found["description"] or None)], title="Model version")

    def _trial(self, found: dict[str, Any]) -> None:
        for system, answer in found["answers"].items():
            print(f"{system} ({found['model'] if system == 'candidate' else 'base model'}):\n{answer['answer']}\n")
        if found["failureReason"]:
            self.say(found["failureReason"])


def address(model: str) -> str:
    """The route of a model."""
    return f"{ROUTE}/{quote(model, safe='/:@')}"


def send_model(command: NounCommand, file: str, adapter: str, *, register: str, send: str, **query: str) -> Any:
    """Register a descriptor, or send an adapter with it."""
    descriptor = read_document(file)
    if not adapter:
        return command.client.post(register, {"descriptor": descriptor} | query)
    with archive_of(command, adapter) as (stream, _):
        return command.client.send_file(send, stream, descriptor=json.dumps(descriptor), **query)


def _aliases(aliases: dict[str, str]) -> str:
    return ", ".join(f"{name} {version}" for name, version in aliases.items())
