"""`datasets describe-prepared`: what a registry has to know of token rows that were prepared elsewhere."""

from pathlib import Path
from typing import Any
from urllib.parse import quote

from datasets import describing
from optimize_site.kernel.commands import NounCommand, arg, verb
from optimize_site.kernel.errors import InvalidInput, OperationError

NONE = "none"


class DescribeVerbs(NounCommand):
    """Describing prepared token rows."""

    @verb("describe-prepared", arg("files", nargs="+", metavar="FILE", help="Parquet with input_ids and loss_mask"),
          arg("--model", required=True, metavar="REPOSITORY", help="whose tokenizer made the rows"),
          arg("--revision", default="", metavar="COMMIT", help="its commit; else the one this box has selected"),
          arg("--chat-template", default="", metavar="FILE|none",
              help="the template the rows were rendered under; else the one runs over the model render under"),
          arg("--out", required=True, metavar="FILE",
              help="prepared.json, or a name that ends in .zip for the archive to register"),
          gives=(describing.describe_files,))
    def describe_prepared(self, files: list[str], model: str, revision: str, chat_template: str, out: str) -> None:
        """Check prepared token rows and write their description; with a revision and a template it needs no box."""
        named, target = describing.named_files(files), Path(out)
        if target.exists() and not self.options.force:
            raise InvalidInput(f"{target} is there already.", code="file_exists", hint="Pass --force to replace it.")
        document = describing.describe_files(named, self._made_with(model, revision, chat_template))
        describing.write_description(document, named, target)
        self.show(document, text=lambda found: self._described(found, target))

    def _made_with(self, model: str, revision: str, chat_template: str) -> describing.MadeWith:
        digest = _template(chat_template)
        if revision and chat_template:
            return describing.MadeWith(model, revision, digest)
        found = self._selected(model)
        if revision not in ("", found["revision"]):
            raise InvalidInput(f"This box has {model} at {found['revision']}, not at {revision}, and knows no template "
                               "of that commit.", code="other_revision", hint="Name the template's file: "
                               "--chat-template FILE.")
        return describing.MadeWith(found["repository"], found["revision"],
                                   digest if chat_template else found["chatTemplateSha256"])

    def _selected(self, model: str) -> dict[str, Any]:
        """What the box has of a base model. Raises InvalidInput where that says too little."""
        instead = "State --revision COMMIT and --chat-template FILE."
        try:
            found = self.client.get(f"/v1/training/base-models/{quote(model, safe='/')}")
        except OperationError as error:
            raise InvalidInput(f"What made the rows is not known: {error.detail}", code=error.code,
                               hint=instead) from error
        if not found["revision"] or not found["chatTemplateSha256"]:
            raise InvalidInput(f"{model} was not prepared on this box yet, so its commit and template are not known.",
                               code="base_model_not_selected", hint=instead)
        return dict(found)

    def _described(self, document: dict[str, Any], out: Path) -> None:
        self.facts([("Rows", document["rows"]), ("Tokens", f"{document['totalTokens']}, {document['trainedTokens']} "
                     "of them trained"), ("Longest row", f"{document['longestRow']} tokens"),
                    ("Tokenizer", f"{document['tokenizer']['repository']} at {document['tokenizer']['revision']}"),
                    ("Chat template", document["chatTemplateSha256"] or NONE)], title=str(out))


def _template(stated: str) -> str | None:
    return None if stated in ("", NONE) else describing.template_sha256(Path(stated))
