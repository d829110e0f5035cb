"""Reads of kept rollouts: the updates that have some, and the completions of one: worst, best, or as scored."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

from django.db.models import Avg, CharField, Count, F, FloatField, Func, Max, Q, QuerySet
from django.db.models.fields.json import KeyTextTransform, KeyTransform
from django.db.models.functions import Cast

from optimize_site.kernel.errors import InvalidInput, NotFound
from registry.models import BaseModel
from runs.descriptor import REINFORCEMENT
from runs.models import Candidate, Rollout, RolloutStep, Run

MOST = 200
DEFAULT_LIMIT = 50
LONGEST_SEARCH = 200
MOST_SPREADS = 240
NO_ROLLOUTS = "no_rollouts"
OLD = "This run was made before rollouts were kept; it has none."


@dataclass(frozen=True)
class Asked:
    """Which completions are wanted: of one update (None for the newest kept) or of every one, those that hold a text,
    of one prompt; by the score, or by the share of a term."""

    step: int | None = None
    every_step: bool = False
    search: str = ""
    row: int | None = None
    term: str = ""


def trains_on_rewards(run: Run) -> bool:
    """Whether the run samples completions and scores them."""
    return run.method in REINFORCEMENT


def check_method(run: Run) -> None:
    """Raises NotFound for a run that scores no completions."""
    if not trains_on_rewards(run):
        raise NotFound(f"The run {run.pk[:12]} trains by {run.method}, which samples no completions.",
                       code=NO_ROLLOUTS, hint="Runs by grpo and gspo keep the completions that they score.")


def note_of(run: Run) -> str:
    """Why a run that samples completions has none kept; empty where it has some."""
    if run.rollout_steps.exists():
        return ""
    return OLD if run.metrics.exists() else "Completions are kept from the first update on; there has been none yet."


def steps_of(run: Run) -> list[int]:
    """Every update whose completions are kept, in order."""
    return list(run.rollout_steps.order_by("step").values_list("step", flat=True))


def get_step(run: Run, step: int | None = None) -> RolloutStep | None:
    """The update, or the newest kept one; None where nothing is kept. Raises NotFound for one that is not kept."""
    kept = run.rollout_steps.order_by("step")
    if step is None:
        return kept.last()
    found = kept.filter(step=step).first()
    if found is None:
        raise NotFound(f"No rollouts of update {step} are kept.", code="step_not_kept", hint=_kept_words(kept))
    return found


def _kept_words(kept: QuerySet[RolloutStep]) -> str:
    first, last = kept.first(), kept.last()
    return f"Kept are {kept.count()} updates, from {first.step} to {last.step}." if first and last else "None are kept."


def rollouts_of(run: Run, asked: Asked, *, worst: bool | None = None) -> QuerySet[Rollout]:
    """The completions asked for: in the order in which they were scored, or the worst or the best first.

    Those without a score come last in either. Equals come a prompt after the other, not all of one prompt first: the
    ends of an update show more than one. Raises NotFound, InvalidInput.
    """
    check_method(run)
    found = _chosen(run, asked)
    if worst is None:
        return found.order_by("step", "group", "index")
    score = F("score") if not asked.term else F("term_share")
    if asked.term:
        found = found.annotate(term_share=_share_of(run, asked.term))
    first = score.asc(nulls_last=True) if worst else score.desc(nulls_last=True)
    return found.order_by(first, "step", "index", "group")


def places_of(run: Run, asked: Asked) -> list[int]:
    """The keys of those asked for, in the order in which they were scored: a text is looked for once, not for the
    count and again for the page. Raises as `rollouts_of`."""
    return list(rollouts_of(run, asked).values_list("pk", flat=True))


def in_order(keys: Sequence[int]) -> list[Rollout]:
    """The rollouts of these keys, in their order, but for those whose update was done again since."""
    found = Rollout.objects.in_bulk(keys)
    return [found[key] for key in keys if key in found]


def best_beside(run: Run, asked: Asked, worst: Collection[Rollout], most: int) -> list[Rollout]:
    """The best of those asked for, none of the worst among them."""
    found = rollouts_of(run, asked, worst=False).exclude(pk__in=[row.pk for row in worst])
    return list(found[:most])


def _chosen(run: Run, asked: Asked) -> QuerySet[Rollout]:
    found = run.rollouts.all()
    if not asked.every_step:
        step = get_step(run, asked.step)
        found = found.filter(step=step.step) if step else found.none()
    if asked.row is not None:
        found = found.filter(row=asked.row)
    text = asked.search.strip()
    if len(text) > LONGEST_SEARCH:
        raise InvalidInput(f"The text to search for has {len(text)} characters; it may have {LONGEST_SEARCH}.",
                           code="search_too_long")
    return found.filter(holds(text)) if text else found


def holds(text: str) -> Q:
    """The completion or what was asked holds a text; written so that the index of `text_index` finds it."""
    return Q(completion__icontains=text) | Q(asked__icontains=text)


def _share_of(run: Run, name: str) -> Any:
    """The share of a term, which stands at one place in every completion's terms."""
    known = terms_of(run)
    if name not in known:
        raise InvalidInput(f"The reward of this run has no term {name!r}.", code="unknown_term",
                           hint=f"Its terms are {', '.join(known)}." if known else "Nothing was scored yet.")
    return Cast(KeyTextTransform("share", KeyTransform(known.index(name), "terms")), FloatField())


def terms_of(run: Run) -> list[str]:
    """The names of the reward's terms, in their order; empty before anything was scored."""
    newest = run.rollouts.order_by("-step", "-group", "-index").values_list("terms", flat=True).first()
    return [term["name"] for term in newest or ()]


def figures_of(run: Run, *, after: int = -1) -> dict[int, dict[str, float]]:
    """What the completions of each update come to, by update."""
    return dict(run.rollout_steps.filter(step__gt=after).order_by("step").values_list("step", "figures"))


def history_of(run: Run, row: int) -> list[dict[str, Any]]:
    """The updates in which a row of the dataset was a prompt: `{"step", "count", "mean", "best"}`, in order."""
    steps = run.rollouts.filter(row=row).values("step").order_by("step").annotate(
        count=Count("pk"), mean=Avg("score"), best=Max("score"))
    return [dict(step) for step in steps]


def figure_names(run: Run, beginning: str) -> list[str]:
    """The figures of any update whose names begin so."""
    names = run.metrics.annotate(name=Func("values", function="jsonb_object_keys", output_field=CharField(),
                                           set_returning=True)).values_list("name", flat=True).distinct()
    return sorted(name for name in names if name.startswith(beginning))


def sampled_histograms(run: Run, terms: Sequence[str]) -> list[tuple[int, dict[str, Any]]]:
    """The spread of the reward, of the length and of these terms' shares in at most 240 of the kept updates, evenly
    apart, the first and the newest among them: `{"total", "length", "terms"}` by update. Nothing else is read."""
    steps = steps_of(run)
    places = {round(place * (len(steps) - 1) / (MOST_SPREADS - 1)) for place in range(MOST_SPREADS)} if steps else set()
    chosen = [steps[place] for place in places] if len(steps) > MOST_SPREADS else steps
    read = {f"term_{place}": KeyTransform(name, KeyTransform("terms", "histograms"))
            for place, name in enumerate(terms)}
    rows = run.rollout_steps.filter(step__in=chosen).order_by("step").annotate(**read).values_list(
        "step", KeyTransform("total", "histograms"), KeyTransform("length", "histograms"), *read)
    return [(step, {"total": total, "length": length, "terms": dict(zip(terms, shares, strict=True))})
            for step, total, length, *shares in rows]


def curves_of(run: Run) -> dict[str, list[tuple[int, float]]]:
    """Every figure of the run's updates as points, those of the kept completions among them."""
    curves: dict[str, list[tuple[int, float]]] = {}
    kept = figures_of(run)
    for step, values in run.metrics.order_by("step").values_list("step", "values"):
        for name, value in (values | kept.get(step, {})).items():
            if isinstance(value, int | float) and not isinstance(value, bool):
                curves.setdefault(name, []).append((step, float(value)))
    return curves


def models_of(run: Run) -> list[tuple[int, str]]:
    """The models made of the run, each with its update; what the run began from is that of update zero."""
    made = [*Candidate.objects.filter(snapshot__run=run, version__isnull=False)
            .values_list("snapshot__step", "version_id"), (run.observed_step, run.model_id)]
    return sorted((step, model) for step, model in {(0, _begun_from(run)), *made} if model)


def _begun_from(run: Run) -> str | None:
    """The model that a run starts from: a warm start's, or the base model; None for a branch."""
    if run.parent_id is not None:
        return None
    warm = run.references.get("warmStart") or {}
    if warm:
        return str(warm["versionId"])
    return BaseModel.objects.filter(repository=run.base_model, revision=run.base_revision).values_list(
        "version_id", flat=True).first()
