"""Fixtures of the engine tests: a tiny model with its own tokenizer, a few rows, and a plan around them."""

import gc
import itertools
import json
import os
import sys
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")
os.environ["TOKENIZERS_PARALLELISM"] = "false"
os.environ["HF_HUB_OFFLINE"] = "1"
CHILD_ROOT = Path(__file__).resolve().parents[2] / "gpu_worker" / "child"
sys.path.insert(0, str(CHILD_ROOT))
sys.path.insert(0, str(Path(__file__).parent))

import jobs  # noqa: E402
import pytest  # noqa: E402
import tiny  # noqa: E402
import torch  # noqa: E402

torch.set_num_threads(1)


@pytest.fixture(autouse=True, scope="module")
def libraries_left_alone():
    """Every training has the collector look through all that it may, which for the libraries takes longer than the tiny
    model's updates do: they are set aside, as they are where jobs are forked. Anew for each module, since an analysis
    takes them back as it ends."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session")
def base_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A random Llama of two layers with a tokenizer of a few hundred entries and a chat template."""
    return tiny.make_base_model(tmp_path_factory.mktemp("base"))


@pytest.fixture(scope="session")
def tokenizer(base_model: Path):
    """The tiny model's tokenizer."""
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(base_model)


@pytest.fixture
def runs_of(tmp_path: Path, base_model: Path, write_rows):
    """Gives what runs plans of one kind over rows, the given ones where it is told no others; each call is an attempt
    of its own."""

    def runs_of(usual: list[dict], plan):
        made = itertools.count()

        def train(rows=None, **changes):
            number = next(made)
            path = write_rows(usual if rows is None else rows, f"train-{number}.jsonl")
            return jobs.run(tmp_path / f"attempt-{number}", plan(base_model, [path], **changes))

        return train

    return runs_of


@pytest.fixture
def write_rows(tmp_path: Path):
    """Writes rows as a chat file and returns its path."""

    def write(rows: list[dict], name: str = "train.jsonl") -> Path:
        path = tmp_path / name
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        return path

    return write
