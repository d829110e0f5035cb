"""`./optimize datasets rows|overlap`: reading rows of a dataset, and what they share with another's."""

import sys
from typing import Any
from urllib.parse import quote

from datasets import showing_rows
from optimize_site.kernel.commands import NounCommand, arg, verb


class RowVerbs(NounCommand):
    """What can be done with the rows of a registered dataset."""

    @verb("rows", arg("dataset"), arg("--offset", type=int, default=0),
          arg("--limit", type=int, default=25, help="at most 100"),
          arg("--search", default="", metavar="WORDS", help="words in this order inside one message"),
          arg("--model", default="", help="count tokens under this base model, where the dataset is analysed"),
          arg("--raw", type=int, default=None, metavar="N", help="write the bytes of row N instead"))
    def rows(self, dataset: str, offset: int, limit: int, search: str, model: str, raw: int | None) -> None:
        """Show rows of a dataset by position, counted from 0."""
        path = f"{self._version_path(dataset)}/rows"
        if raw is not None:
            self.client.download(f"{path}/{raw}", sys.stdout.buffer)
            sys.stdout.buffer.flush()
            return
        found = self.client.get(path, offset=offset, limit=limit, search=search, model=model)
        self.show(found, text=lambda document: showing_rows.rows(self, document))

    @verb("overlap", arg("training", help="the dataset to train on"), arg("evaluation", help="the one to judge by"))
    def overlap(self, training: str, evaluation: str) -> None:
        """Say which rows to train on ask what a row to judge by asks, exactly or nearly; compares all of them."""
        path, judged = f"{self._version_path(training)}/overlap", self._one_version(evaluation)["reference"]
        found = self.client.get(path, other=judged)
        while not found["coverage"]["isOver"]:
            self.say(f"{found['coverage']['read']:,} of {found['coverage']['total']:,} rows compared")
            found = self.client.get(path, other=judged)
        self.show(found, text=lambda document: showing_rows.overlap(self, document))

    def _one_version(self, dataset: str) -> Any:
        return self.client.get(f"/v1/datasets/{quote(dataset, safe=':@')}")

    def _version_path(self, dataset: str) -> str:
        found = self._one_version(dataset)
        return f"/v1/registry/datasets/{found['namespace']}/{found['name']}/versions/v{found['version']}"
