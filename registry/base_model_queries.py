"""Reads base models: what the catalog allows, joined with what was selected and prepared."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from optimize_site.kernel.catalog import BaseModelEntry, load_catalog
from optimize_site.kernel.conf import home
from optimize_site.kernel.errors import AmbiguousPrefix, NotFound
from optimize_site.kernel.ids import SHOWN, derived_id, looks_like_id
from registry import phases
from registry.models import BaseModel, Version


@dataclass(frozen=True)
class BaseModelState:
    """One base model as the box knows it. `entry` is None where the catalog no longer lists it."""

    id: str
    repository: str
    entry: BaseModelEntry | None
    row: BaseModel | None

    @property
    def phase(self) -> str:
        """Its phase in registry.phases, or "" where nobody ever selected it."""
        return self.row.phase if self.row is not None else ""

    @property
    def is_allowed(self) -> bool:
        return self.entry is not None and self.entry.allowed

    @property
    def is_serving_only(self) -> bool:
        return self.entry is not None and self.entry.serving_only

    @property
    def is_selected(self) -> bool:
        """Whether somebody selected it and nothing refused it since."""
        return self.phase in phases.SELECTED and not self.is_leaving

    @property
    def is_leaving(self) -> bool:
        """Whether its preparation is being stopped because it was deselected."""
        return self.row is not None and self.row.cancel_requested_at is not None

    @property
    def is_ready(self) -> bool:
        return self.phase == phases.READY

    @property
    def is_refused(self) -> bool:
        """Whether preparing it failed."""
        return self.phase in phases.REFUSED

    @property
    def failure(self) -> str:
        """Why preparing it failed, as a sentence."""
        return self.row.failure_reason if self.row is not None else ""

    @property
    def failure_code(self) -> str:
        return self.row.failure_code if self.row is not None else ""

    @property
    def revision(self) -> str:
        """The commit that was prepared, else the one the catalog pins, else empty."""
        prepared = self.row.revision if self.row is not None else ""
        return prepared or (self.entry.revision if self.entry is not None else "") or ""

    @property
    def folder(self) -> Path | None:
        """Where the prepared weights lie."""
        return home() / self.row.folder if self.row is not None and self.row.folder else None

    @property
    def facts(self) -> dict[str, Any]:
        """What preparing found: parameters, contextLength, vocabSize, chatTemplateSha256, architecture, files …"""
        return self.row.facts if self.row is not None else {}

    @property
    def chat_template_sha256(self) -> str:
        stated = self.entry.chat_template_sha256 if self.entry is not None else ""
        return str(self.facts.get("chatTemplateSha256") or stated or "")

    @property
    def chat_template_correction(self) -> str:
        """Why the template is not the one the repository ships, as a sentence; empty where it is."""
        return str((self.facts.get("chatTemplateCorrection") or {}).get("reason", ""))

    @property
    def chat_template_note(self) -> str:
        """What a correction that the catalog names has not done, as a sentence; empty where it names none or did it."""
        if self.entry is None or not self.entry.chat_template_correction or self.chat_template_correction:
            return ""
        if self.facts.get("chatTemplateSha256"):
            return ("The catalog's correction knows other templates than the one that this repository ships, which "
                    "stays as it is.")
        return "Corrected once the model is prepared, if its repository ships a template that the catalog knows."

    @property
    def context_length(self) -> int | None:
        stated = self.entry.context_length if self.entry is not None else None
        found: int | None = self.facts.get("contextLength") or stated
        return found

    @property
    def parameters(self) -> int | None:
        stated = self.entry.parameters if self.entry is not None else None
        found: int | None = self.facts.get("parameters") or stated
        return found

    @property
    def version(self) -> Version | None:
        """The registered base model version, once it was ready."""
        return self.row.version if self.row is not None else None

    @property
    def selected_at(self) -> datetime | None:
        return self.row.selected_at if self.row is not None else None


def entry_id(repository: str) -> str:
    """The ID of a base model's entry: always the same for a repository."""
    return derived_id("base-model", repository)


def list_base_models(*, every: bool = False) -> list[BaseModelState]:
    """The selected ones (those being prepared and those refused included), or every one that the box allows."""
    return [state for state in _states() if state.phase not in {"", phases.DESELECTED} or (every and state.is_allowed)]


def find_base_model(text: str) -> BaseModelState | None:
    """The base model a repository, entry ID, model ID, prefix or registry reference names, or None.

    Raises AmbiguousPrefix where a prefix begins several.
    """
    wanted = text.strip()
    found = [state for state in _states() if _is_named(state, wanted)]
    if not found and looks_like_id(wanted):
        found = [state for state in _states() if state.id.startswith(wanted)
                 or (state.version is not None and state.version.pk.startswith(wanted))]
    if len(found) > 1:
        shown = ", ".join(f"{state.id[:SHOWN]} ({state.repository})" for state in found)
        raise AmbiguousPrefix(f"{text!r} begins several IDs: {shown}.", hint="Give more digits.")
    return found[0] if found else None


def get_base_model(text: str) -> BaseModelState:
    """The base model that `text` names. Raises NotFound, telling which ones are allowed."""
    found = find_base_model(text)
    if found is None:
        allowed = ", ".join(state.repository for state in _states() if state.is_allowed) or "none"
        raise NotFound(f"This box has no base model {text!r}.", code="unknown_base_model",
                       hint=f"Allowed here: {allowed}.")
    return found


def base_model_state(text: str) -> BaseModelState | None:
    """What work that names a base model needs to know of it; None where the catalog has none of that name."""
    return find_base_model(text)


def _is_named(state: BaseModelState, text: str) -> bool:
    if state.repository.lower() == text.lower() or state.id == text:
        return True
    version = state.version
    return version is not None and text.lower() in {version.pk, version.artifact.reference, version.reference}


def _states() -> Iterator[BaseModelState]:
    rows = {row.repository: row for row in BaseModel.objects.select_related("version__artifact")}
    entries = load_catalog().base_models
    for repository, entry in entries.items():
        yield BaseModelState(entry_id(repository), repository, entry, rows.get(repository))
    for repository, row in rows.items():
        if repository not in entries:
            yield BaseModelState(row.pk, repository, None, row)
