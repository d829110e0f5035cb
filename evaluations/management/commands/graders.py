"""`graders`: which rules score answers, whether one can be used, and what it says of a few."""

import json
from typing import Any

from evaluations.agreement_text import agreement_table
from optimize_site.kernel.commands import NounCommand, arg, read_document, verb
from optimize_site.kernel.errors import InvalidInput

ROUTE = "/v1/training/graders"
GRADER = arg("grader", metavar="GRADER", help='a name, or NAME:{"PARAMETER": VALUE}')
INSTRUCTIONS = arg("--grader-instructions", default="", metavar="TEXT",
                   help="what a grader that is a model is told; else what it inherits")


class Command(NounCommand):
    """Shows, checks and tries graders."""

    noun = "graders"
    help = "Graders: what scores an answer, tried before anything is spent."

    @verb("list")
    def list_graders(self) -> None:
        """Show the rule graders, their parameters and an example of each."""
        self.show(self.client.get(ROUTE), text=self._table)

    @verb("validate", GRADER, INSTRUCTIONS)
    def validate(self, grader: str, grader_instructions: str) -> None:
        """Say whether a grader can be used, and what it goes by."""
        body = {"grader": grader, "graderInstructions": grader_instructions}
        self.show(self.client.post(f"{ROUTE}/validate", body), text=self._record)

    @verb("run", GRADER, INSTRUCTIONS, arg("--answer", default=None, help="what the model said"),
          arg("--expected", default="", help="what it should have said"),
          arg("-f", "--file", default="", metavar="FILE",
              help="up to 20 rows {answer, expected}: a list in JSON or YAML; - is standard input"))
    def run_grader(self, grader: str, grader_instructions: str, answer: str | None, expected: str, file: str) -> None:
        """Score one answer, or the rows of a file."""
        if (answer is None) == (not file):
            raise InvalidInput("Give either --answer or -f.", code="usage")
        rows = read_document(file) if file else [{"answer": answer, "expected": expected}]
        body = {"grader": grader, "graderInstructions": grader_instructions, "rows": rows}
        self.show(self.client.post(f"{ROUTE}/run", body), text=self._verdicts)

    @verb("agreement")
    def agreement(self) -> None:
        """Show how far each grader agrees with the answers that people marked."""
        self.show(self.client.get(f"{ROUTE}/agreement"), text=lambda found: agreement_table(self, found["graders"]))

    def _table(self, found: dict[str, Any]) -> None:
        self.table(["GRADER", "SCORE", "PARAMETERS", "EXAMPLE"],
                   [[rule["name"], rule["summary"],
                     ", ".join(parameter["name"] for parameter in rule["parameters"]) or None,
                     rule["example"]["grader"]] for rule in found["graders"]])

    def _record(self, found: dict[str, Any]) -> None:
        stated = [(name, json.dumps(value, ensure_ascii=False)) for name, value in found["parameters"].items()]
        self.facts([("Grader", found["grader"]), ("Score", found["summary"]), *stated], title="Grader")

    def _verdicts(self, found: dict[str, Any]) -> None:
        print(f"{found['grader']}\n")
        self.table(["ROW", "SCORE", "PARTS", "WHY"],
                   [[number, _score(verdict), _parts(verdict["fields"]), verdict["explanation"]]
                    for number, verdict in enumerate(found["verdicts"])], right=["ROW", "SCORE"])
        if len(found["verdicts"]) > 1 and found["meanScore"] is not None:
            print(f"\nMean score {found['meanScore']:.4f} over {found['scored']} scored; {found['unscored']} unscored.")


def _score(verdict: dict[str, Any]) -> str:
    return "unscored" if verdict["score"] is None else f"{verdict['score']:.4f}"


def _parts(fields: dict[str, bool]) -> str | None:
    return ", ".join(f"{name} {'right' if is_right else 'wrong'}" for name, is_right in fields.items()) or None
