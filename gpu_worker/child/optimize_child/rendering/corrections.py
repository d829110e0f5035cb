"""Chat templates that the catalog corrects: known by the digest they ship with, changed in places, known again after.

The corrected template is written into the prepared folder, so whatever reads the folder renders under it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from optimize_child.failures import JobFailure
from optimize_child.rendering.template import template_sha256

FILE = "chat_template.jinja"


def correct_template(folder: Path, tokenizer: Any, correction: dict[str, Any] | None) -> dict[str, Any] | None:
    """Put the corrected template in the place of the shipped one; what was corrected and why, None for no correction.

    `tokenizer` reads its template from the folder and gets the new one too. Raises JobFailure where a correction
    does not give the template it promises.
    """
    shipped = tokenizer.get_chat_template() if tokenizer.chat_template and correction else ""
    digest = template_sha256(shipped)
    variant = next((found for found in (correction or {}).get("variants", []) if found["shipped"] == digest), None)
    if variant is None or correction is None:
        return None
    text = corrected_text(shipped, variant)
    if template_sha256(text) != variant["corrected"]:
        raise JobFailure(
            "base_model_refused",
            f"The correction of the chat template {digest[:12]} gives {template_sha256(text)[:12]}, not "
            f"{variant['corrected'][:12]} as the catalog states.",
            hint="Correct the catalog's chat template file.",
        )
    (folder / FILE).write_text(text)
    tokenizer.chat_template = text
    return {"shipped_sha256": digest, "reason": correction["reason"]}


def corrected_text(shipped: str, variant: dict[str, Any]) -> str:
    """The shipped text with one passage moved and some texts replaced. Raises JobFailure where a place is not one."""
    text = shipped
    if variant.get("move"):
        text = _moved(text, **variant["move"])
    for change in variant.get("replace") or []:
        at = _place(text, change["old"])
        text = text[:at] + change["new"] + text[at + len(change["old"]) :]
    return text


def _moved(text: str, first: str, until: str, before: str) -> str:
    """The passage from `first` up to `until`, taken out and put in front of `before`."""
    start = _place(text, first)
    end = _place(text, until)
    passage = text[start:end]
    rest = text[:start] + text[end:]
    at = _place(rest, before)
    return rest[:at] + passage + rest[at:]


def _place(text: str, words: str) -> int:
    if text.count(words) != 1:
        raise JobFailure(
            "base_model_refused",
            f"The correction looks for {words.strip()!r}, which stands {text.count(words)} times in the template.",
            hint="Correct the catalog's chat template file.",
        )
    return text.index(words)
