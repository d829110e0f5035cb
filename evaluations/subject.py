"""What an evaluation scores: a registered model, or a selected base model that was not prepared yet."""

from dataclasses import dataclass

from endpoints.errors import BaseModelNotReady
from endpoints.operations.work_steps import usable_base
from registry.base_model_queries import BaseModelState, base_model_state, get_base_model
from registry.model_queries import find_model, get_model, serving_of
from registry.models import Version


@dataclass(frozen=True)
class Subject:
    """A model and the base model it stands on; `version` is None until a base model was prepared once."""

    version: Version | None
    base_model: str

    @property
    def name(self) -> str:
        return self.version.reference if self.version is not None else self.base_model

    @property
    def is_base(self) -> bool:
        return self.version is None or serving_of(self.version).is_base


def named_subject(text: str, namespace: str) -> Subject:
    """What `text` names. Raises UnknownVersion.

    A repository that is being prepared again is the version that will be, not the one that was.
    """
    version = find_model(text, namespace)
    state = base_model_state(text)
    is_repository = state is not None and state.repository.lower() == text.strip().lower()
    if state is not None and (version is None or (is_repository and not state.is_ready)):
        return Subject(None, state.repository)
    version = version or get_model(text, namespace)
    return Subject(version, serving_of(version).base_model)


def usable_base_of(subject: Subject) -> BaseModelState:
    """The selected base model, ready or being prepared. Raises BaseModelNotReady, TemplateMismatch."""
    if subject.version is not None:
        return usable_base(subject.version)
    state = get_base_model(subject.base_model)
    if not state.is_allowed:
        raise BaseModelNotReady(f"This box does not allow {state.repository}.", code="base_model_not_allowed",
                                hint="`base-models list --all` shows what is allowed.")
    if not state.is_selected:
        why = f" {state.failure}" if state.is_refused else ""
        raise BaseModelNotReady(f"{state.repository} is not selected.{why}",
                                hint=f"Run `base-models select {state.repository} --wait` first.")
    return state
