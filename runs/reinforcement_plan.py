"""What a reinforcement job's plan has beyond a supervised one's: the scorer of its completions, and its warm start."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from optimize_site.kernel.blobs import blob_path
from optimize_site.kernel.errors import Unavailable
from optimize_site.kernel.graders import parse_target
from optimize_site.kernel.judges import keeper, scorer_body
from optimize_site.kernel.scoring import scorer_start, scoring_limits
from registry.adapter_folder import lay_out_adapter
from registry.base_model_queries import BaseModelState, base_model_state
from registry.models import Version
from runs import memory, queries
from runs.evidence import parameters_of
from runs.models import Run
from runs.plan import scorer_spec
from runs.rollout_engine import chosen_sampler, kind_of, rollout_box
from runs.samplers import SamplerChoice
from runs.shapes import shape_at


def scorer_part(run: Run, folder: Path) -> dict[str, Any]:
    """How the job starts the process that scores completions, and what it is told; `folder` is the attempt's."""
    reward, limits = run.config["reward"], scoring_limits()
    scratch = folder / "scoring"
    scratch.mkdir(parents=True, exist_ok=True)
    held = keeper().held(queries.KIND, run.pk) if any("judge" in term for term in run.references["reward"]) else ()
    found = []
    for term, named in zip(reward["terms"], run.references["reward"], strict=True):
        judge = {"judge": scorer_body(named["judge"], held)} if "judge" in named else {}
        bundle = {"bundle": _bundle(term, named["bundle"])} if "bundle" in named else {}
        found.append({"name": named["name"]} | judge | bundle)
    spec = scorer_spec(reward, found, on_failure=reward["onFailure"], limits=limits, scratch=str(scratch))
    return scorer_start(spec)


def _bundle(term: Mapping[str, Any], named: Mapping[str, Any]) -> dict[str, Any]:
    """A bundle's archive as it lies here, and the function of it that a term calls."""
    sha256 = named["contentHash"]
    place = {"module": term.get("module"), "function": term.get("function")}
    target = parse_target(term["grader"]) if "grader" in term else None
    if target is not None:
        place = {"module": target.module, "function": target.function}
    return {"archive": str(blob_path(sha256)), "sha256": sha256} | place


def sampler_part(run: Run) -> dict[str, Any]:
    """Who samples completions, as the box has it when the attempt starts. Raises Unavailable where it has come to want
    vLLM alone, or has lost what let vLLM sample for this run."""
    choice, box = sampler_of(run), rollout_box()
    if choice.kind == "own" and box.mode == "vllm":
        raise Unavailable(choice.reason, hint=choice.hint)
    return choice.part(box)


def sampler_of(run: Run) -> SamplerChoice:
    """Who would sample for an admitted run, as the box and its base model are now."""
    state = base_model_state(run.base_model)
    return chosen_sampler(run.config, run.execution, _parts(run, state), shape_at(state) if state else None)


def _parts(run: Run, state: BaseModelState | None) -> Mapping[str, int | None]:
    """What training takes of the device, part by part: as the submission predicted it, or as it is known since the base
    model was prepared."""
    foreseen: dict[str, int | None] = (run.predicted_memory or {}).get("parts") or {}
    if state is None or (foreseen and None not in foreseen.values()):
        return foreseen
    return memory.predict(run.config, run.execution, kind=kind_of(run.execution["deviceProfile"]),
                          parameters=parameters_of(state), shape=shape_at(state), longest_row=None).parts


def warm_start_part(run: Run, folder: Path) -> dict[str, Any] | None:
    """The registered adapter that the run starts from, laid out in the attempt's folder. A branch by weights starts
    from its snapshot alone."""
    named = run.references.get("warmStart")
    if named is None or run.restore_mode == "weights":
        return None
    version = Version.objects.get(pk=named["versionId"])
    laid_out = lay_out_adapter(version, folder / "warm-start")
    digests = {Path(entry["path"]).name: entry["sha256"] for entry in version.objects_listing}
    return {"folder": str(laid_out), "sha256": digests}
