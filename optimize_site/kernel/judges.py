"""Judges: models that grade answers, held on a device for one run or one evaluation.

The app that asks models appoints and holds them; whoever needs one asks here. Holding is by level, not by message: a
judge stays for as long as its holder wants it, and the function that the holder's app puts into `HOLDERS` says so.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from optimize_site.kernel.conf import setting

State = Literal["waiting", "starting", "ready", "failed"]
HOLDERS: dict[str, Callable[[str], bool]] = {}
"""By kind of holder: whether the one with this ID still wants its judges."""


@dataclass(frozen=True)
class Appointment:
    """A judge as it was admitted: which model version, what it is told, and where that comes from.

    `source` is `stated`, `workload` (what its workload states), `training` (the system message it was trained with),
    `dataset` (that of the scored rows, and the built-in instructions) or `built-in`.
    """

    model_id: str
    reference: str
    base_model: str
    instructions: str
    source: str

    @property
    def document(self) -> dict[str, str]:
        """As it is kept beside a grader or a reward."""
        return {"modelId": self.model_id, "model": self.reference, "baseModel": self.base_model,
                "instructions": self.instructions, "instructionsSource": self.source}


@dataclass(frozen=True)
class Held:
    """One judge of a holder: where it is on its way, why it waits or failed, and the socket it answers at."""

    model_id: str
    state: State
    socket: str
    reason: str = ""
    code: str = ""
    hint: str = ""


class Judges(Protocol):
    """Who keeps judges."""

    def find(self, model: str, namespace: str) -> str:
        """The reference, with its version, of the model that a grader names. Raises UnknownVersion."""

    def appoint(self, model: str, *, instructions: str, dataset_id: str, namespace: str,
                of_workload: str = "") -> Appointment:
        """The judge that `model` names, with the instructions stated, else its workload's, else those it inherits;
        `dataset_id` is the version of the rows to score, empty where there are none yet. Raises UnknownVersion,
        BaseModelNotReady, TemplateMismatch, InstructionsRequired, InstructionsTooLong."""

    def check_room(self, count: int, *, beside: str = "", devices: int = 0) -> str:
        """The profile whose slots hold so many judges while `devices` slots of the profile `beside` stay for their
        holder. Raises NoRoomForJudges where the box has none such."""

    def hold(self, holder_kind: str, holder_id: str, model_ids: Iterable[str], *, beside: str = "", devices: int = 0,
             created_by: str = "") -> None:
        """Have these models held as judges for a holder. Those it has already stay as they are."""

    def held(self, holder_kind: str, holder_id: str) -> Sequence[Held]:
        """The newest judge of each model of a holder."""

    def not_ready(self, holder_kind: str) -> Sequence[str]:
        """Holders of a kind of which some judge does not answer now."""


class NoJudges:
    """No app that asks models is installed."""

    def __getattr__(self, name: str) -> Any:
        raise NotImplementedError("nothing here keeps judges")


_judges: Judges = NoJudges()


def provide(judges: Judges) -> None:
    """Called once by the app that asks models."""
    global _judges
    _judges = judges


def keeper() -> Judges:
    """Who keeps judges."""
    return _judges


def scorer_body(judge: Mapping[str, Any], held: Sequence[Held]) -> dict[str, Any]:
    """What stands under `judge` in a term of the scorer's spec, for a judge as `Appointment.document` keeps it;
    `seconds` is how long it may be silent."""
    socket = next((one.socket for one in held if one.model_id == judge["modelId"]), "")
    return {"socket": socket, "instructions": judge["instructions"], "source": judge["instructionsSource"],
            "seconds": float(setting("trainer.judges.seconds"))}
