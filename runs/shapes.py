"""The dimensions of a prepared base model, read from its folder."""

import json
from dataclasses import replace

from optimize_site.kernel.conf import setting
from registry.base_model_queries import BaseModelState
from runs import memory


def shape_at(state: BaseModelState) -> memory.Shape | None:
    """A prepared model's shape; None where it is not prepared, or no shape of ours. A box that computes strictly shares
    no prompts."""
    if state.folder is None:
        return None
    try:
        shape = memory.shape_of(json.loads((state.folder / "config.json").read_bytes()))
    except (OSError, ValueError, AttributeError):
        return None
    return replace(shape, shares_prompts=False) if shape and setting("trainer.jobs.strict-compute") else shape
