"""What came of a run: the tab of its branches, its lineage as a picture, and its sweeps point by point."""

from collections.abc import Iterable
from typing import Any

from optimize_site.kernel.htmx import HtmxRequest
from optimize_site.kernel.listing import listed
from optimize_site.kernel.words import state_word
from runs import lineage, queries
from runs.compared_figures import last_figure
from runs.comparing import MOST_RUNS
from runs.lineage_picture import HEIGHT, WIDTH, Picture, draw
from runs.models import Run
from runs.rollouts.queries import trains_on_rewards
from runs.views.naming import title


def branches_tab(request: HtmxRequest, run: Run) -> dict[str, Any]:
    """The run's lineage, its direct branches newest first, and its sweeps."""
    page = listed(request, lineage.branches_of(run))
    page["rows"] = [{"run": child, "title": title(child), "changes": changes_of(child),
                     "last": last_figure(child)} for child in page["rows"]]
    root = lineage.ancestry_of(run)[0]
    has_kin = root.pk != run.pk or page["total"]
    return page | {
        "picture": _picture(draw(lineage.tree_of(root), here=run.pk)) if has_kin else None,
        "sweeps": [_sweep(token, run) for token in _sweeps_of(run)],
        "branch_from": queries.newest_branchable(run)}


def changes_of(run: Run) -> str:
    """The fields that a branch changed, without the words that every path begins with."""
    return ", ".join(path.removeprefix("config.").removeprefix("hyperparams.") for path in run.stated)


def _picture(picture: Picture) -> dict[str, Any]:
    nodes = [{"node": node, "phase": state_word(node.run["phase"]).text, "title_y": node.y + 19,
              "phase_y": node.y + 36, "progress_y": node.y + 53, "text_x": node.x + 10, "from_x": node.x - 6,
              "from_y": node.y + HEIGHT // 2 - 5} for node in picture.nodes]
    return {"picture": picture, "nodes": nodes, "box_width": WIDTH, "box_height": HEIGHT}


def _sweeps_of(run: Run) -> list[str]:
    found = lineage.branches_of(run).exclude(sweep_id="").values_list("sweep_id", flat=True)
    return list(dict.fromkeys(found))


def _sweep(token: str, run: Run) -> dict[str, Any]:
    """A sweep's points in the order of its grid, each with how good its figure is among them."""
    points = list(lineage.branches_of(run).filter(sweep_id=token).order_by("created_at", "pk"))
    is_rewarded = all(trains_on_rewards(point) for point in points)
    figures = {point.pk: (_reward if is_rewarded else _loss)(point) for point in points}
    best = (max if is_rewarded else min)((found for found in figures.values() if found is not None), default=None)
    axes = list((points[0].sweep_point or {}) if points else {})
    return {"token": token, "axes": [axis.rpartition(".")[2] for axis in axes], "from": points[0].source_snapshot,
            "is_rewarded": is_rewarded, "most_curves": MOST_RUNS,
            "points": [{"run": point, "values": [(point.sweep_point or {}).get(axis) for axis in axes],
                        "figure": figures.get(point.pk), "share": _share(figures.get(point.pk), best, figures.values()),
                        "is_best": best is not None and figures.get(point.pk) == best} for point in points]}


def _loss(run: Run) -> float | None:
    validation = (run.summary.get("validation") or {}).get("loss")
    found = validation if validation is not None else run.summary.get("lastLoss")
    return float(found) if isinstance(found, int | float) else None


def _reward(run: Run) -> float | None:
    last = last_figure(run)
    return float(last["value"]) if last else None


def _share(figure: float | None, best: float | None, figures: Iterable[float | None]) -> float | None:
    """Where a figure lies between the worst of the points (0) and the best (1)."""
    if figure is None or best is None:
        return None
    farthest = max(abs(best - found) for found in figures if found is not None)
    return 1 - abs(best - figure) / farthest if farthest else None
