"""Folders of base models that no longer are what the box uses."""

from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

from optimize_site.kernel.conf import home
from optimize_site.kernel.garbage import Waste, waste_at
from optimize_site.kernel.models import Attempt
from optimize_site.kernel.work import attempt_folder
from registry.models import BaseModel
from registry.work import FOLDER_ID, BaseModelWork

PLACE = "base-models"


def unused_base_models(before: datetime) -> Iterator[Waste]:
    """Fetched weights that are no base model's present folder, that no attempt fetches into and no open job reads."""
    kept = set(BaseModel.objects.exclude(folder="").values_list("folder", flat=True))
    open_attempts = list(Attempt.objects.filter(ended_at=None))
    fetching = {attempt.pk[:FOLDER_ID] for attempt in open_attempts if attempt.holder_kind == BaseModelWork.kind}
    plans = [_plan(attempt) for attempt in open_attempts]
    for path in sorted((home() / PLACE).glob("*/*")):
        folder = str(path.relative_to(home()))
        is_used = folder in kept or path.name in fetching or any(folder in plan for plan in plans)
        found = None if is_used else waste_at("base model folder", path, before)
        if found is not None:
            yield found


def _plan(attempt: Attempt) -> str:
    path: Path = attempt_folder(attempt.pk) / "plan.json"
    try:
        return path.read_text()
    except OSError:
        return ""
