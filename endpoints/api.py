"""Routes of trials: one input tried on a model."""

from typing import Any

from django.http import HttpRequest
from ninja import Router, Status

from endpoints import queries
from endpoints.errors import MalformedMessages
from endpoints.operations import trials as operations
from endpoints.render import trial_document
from optimize_site.kernel.api import Body
from optimize_site.kernel.auth import actor_of
from registry.model_queries import get_model

router = Router(tags=["trials"])


class NewTrial(Body):
    """Either `input`, what the user says, or whole `messages`; `instructions` is the system message for `input`."""

    model: str
    input: str = ""
    instructions: str = ""
    messages: list[dict[str, Any]] = []

    def conversation(self) -> list[dict[str, Any]]:
        if bool(self.input) == bool(self.messages):
            raise MalformedMessages("A trial takes either `input` or `messages`.", hint="Send one of the two.")
        if self.messages:
            return self.messages
        system = [{"role": "system", "content": self.instructions}] if self.instructions else []
        return [*system, {"role": "user", "content": self.input}]


@router.post("", response={201: dict[str, Any]})
def start_trial(request: HttpRequest, body: NewTrial) -> Status[dict[str, Any]]:
    """Ask a model one thing, with its base model's answer beside it."""
    trial = operations.start_trial(get_model(body.model), body.conversation(), actor=actor_of(request))
    return Status(201, trial_document(trial))


@router.get("/{trial}")
def get_trial(request: HttpRequest, trial: str) -> dict[str, Any]:
    """The answers that came so far."""
    return trial_document(queries.get_trial(trial))


@router.post("/{trial}/cancel", response={202: dict[str, Any]})
def cancel_trial(request: HttpRequest, trial: str) -> Status[dict[str, Any]]:
    """Stop it."""
    return Status(202, trial_document(operations.cancel_trial(queries.get_trial(trial), actor=actor_of(request))))
