"""`./optimize datasets`: data by hash and bare name, and files before they are registered."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

from datasets import render, sending, showing, splitting, validating
from datasets.analyses.verbs import AnalysisVerbs
from datasets.describe_verbs import DescribeVerbs
from datasets.importers.verbs import ImportVerbs
from datasets.row_verbs import RowVerbs
from optimize_site.kernel.commands import arg, verb
from optimize_site.kernel.errors import InvalidInput
from registry.commands.images import ImageVerbs

FILE = arg("-f", "--file", required=True, help="chat rows, one JSON object a line; - is standard input")
LIMIT = arg("--limit", type=int, default=50)
OFFSET = arg("--offset", type=int, default=0)


class Command(AnalysisVerbs, DescribeVerbs, ImageVerbs, ImportVerbs, RowVerbs):
    noun = "datasets"
    help = "Data by hash and bare name, and files before they are registered."

    @verb("create", FILE, arg("--name", default="", help="a bare name to give it, or to move to it"),
          arg("--no-upload", action="store_true", help="check the file here and register nothing"),
          gives=(render.named, "isNew"))
    def create(self, file: str, name: str, no_upload: bool) -> None:
        """Register a file under its hash."""
        if no_upload:
            self._show_checked(file)
            return
        made = sending.send(self, "/v1/datasets", file, name=name)
        self.show_made(made, "hash", text=self._created)

    @verb("list", LIMIT, OFFSET)
    def list_all(self, limit: int, offset: int) -> None:
        """List sets of examples, newest first."""
        self.show(self.client.get("/v1/datasets", limit=limit, offset=offset), text=self._listed)

    @verb("get", arg("dataset", help="a hash, a prefix of one, a name or a reference"))
    def get(self, dataset: str) -> None:
        """Show a dataset: what it holds and what was noticed in it."""
        self.show(self.client.get(f"/v1/datasets/{quote(dataset, safe=':@')}"), text=self._one)

    @verb("name", arg("name"), arg("dataset"), gives=(render.named,))
    def name(self, name: str, dataset: str) -> None:
        """Give a dataset a bare name, or move the name to it."""
        done = self.client.put(f"/v1/datasets/{quote(name, safe='')}", {"dataset": dataset})
        self.show(done, text=lambda document: print(f"{name} is now {document['hash']}"))

    @verb("validate", arg("file", help="a file to register, of any format; - is standard input"))
    def validate(self, file: str) -> None:
        """Check a file as registration does, without a box: what it holds, what was noticed, what is refused."""
        self._show_checked(file)

    @verb("split", arg("file"), arg("--held-out", type=float, required=True, metavar="SHARE",
                                    help="a share such as 0.2, or a number of rows"),
          arg("--out-train", required=True, metavar="FILE"), arg("--out-eval", required=True, metavar="FILE"),
          arg("--seed", type=int, default=0), gives=("train", "eval", "seed"))
    def split(self, file: str, held_out: float, out_train: str, out_eval: str, seed: int) -> None:
        """Cut a held-out part off a file: every answer in proportion, no prompt on both sides. Needs no box."""
        places = [Path(place) for place in (file, out_train, out_eval)]
        self._check_places(places)
        if held_out <= 0:
            raise InvalidInput(f"--held-out is {held_out:g}; it must be above 0.", code="invalid_share",
                               hint="For instance 0.2, or a number of rows.")
        train, evaluation = splitting.split_file(*places, share=held_out, seed=seed)
        self.show({"train": _part(train), "eval": _part(evaluation), "seed": seed}, text=self._parts)

    def _check_places(self, places: Sequence[Path]) -> None:
        if len({place.resolve() for place in places}) < len(places):
            raise InvalidInput("The file and the two outputs are not three different files.", code="same_file")
        if not places[0].is_file():
            raise InvalidInput(f"{places[0]} is no file.", code="unreadable_file")
        for place in places[1:]:
            if not place.absolute().parent.is_dir():
                raise InvalidInput(f"There is no folder {place.parent}.", code="no_such_folder")
            if place.exists() and not self.options.force:
                raise InvalidInput(f"{place} is there already.", code="file_exists", hint="Pass --force to replace it.")

    def _created(self, document: dict[str, Any]) -> None:
        print(document["hash"])
        self.say(f"{document['exampleCount']} examples" + ("" if document["isNew"] else ", registered before")
                 + (f", named {', '.join(document['names'])}." if document["names"] else "."))
        showing.findings(self, document["findings"])

    def _listed(self, document: dict[str, Any]) -> None:
        self.table(["HASH", "NAMES", "EXAMPLES", "SIZE", "REGISTERED", "BY"],
                   [[item["hash"][:showing.SHOWN_HASH], ", ".join(item["names"] or item["references"]),
                     item["exampleCount"], showing.size(item["sizeBytes"]), showing.moment(item["createdAt"]),
                     item["createdBy"]] for item in document["datasets"]], right=["EXAMPLES", "SIZE"])

    def _one(self, document: dict[str, Any]) -> None:
        showing.version(self, document)
        self.facts([("Names", ", ".join(document["names"]) or None), ("Versions", ", ".join(document["references"]))])

    def _show_checked(self, file: str) -> None:
        with sending.on_disk(file) as path:
            document = {"file": file} | validating.check_file(path)
        self.show(document, text=lambda found: showing.checked(self, found))

    def _parts(self, document: dict[str, Any]) -> None:
        self.table(["PART", "ROWS", "ANSWERS", "FILE"],
                   [[side, document[side]["rows"], len(document[side]["labels"]), document[side]["file"]]
                    for side in ("train", "eval")], right=["ROWS", "ANSWERS"])
        self.say("No prompt stands on both sides.")


def _part(part: splitting.Part) -> dict[str, Any]:
    return {"file": str(part.path), "rows": part.num_rows, "labels": part.labels}
