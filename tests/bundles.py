"""Scoring bundles for tests, made from the text of their modules."""

import hashlib
import io
import zipfile
from contextlib import contextmanager

from evaluations.bundles.scorer import BundleScorer
from evaluations.scoring.spec import Limits
from evaluations.scoring.terms import Item


def packed(**modules):
    """The bytes of a ZIP that holds each module; the same for the same texts."""
    sink = io.BytesIO()
    with zipfile.ZipFile(sink, "w") as archive:
        for name, text in modules.items():
            archive.writestr(zipfile.ZipInfo(f"{name}.py"), text)
    return sink.getvalue()


@contextmanager
def scoring(folder, text, *, function="compute_score", seconds=20.0, memory_bytes=512 << 20, **modules):
    """A scorer of the module `reward` with this text, closed afterwards."""
    archive = folder / "bundle.zip"
    archive.write_bytes(packed(reward=text, **modules))
    limits = Limits(seconds=seconds, memory_bytes=memory_bytes)
    scorer = BundleScorer(archive, "reward", function, limits, folder / "scratch",
                          sha256=hashlib.sha256(archive.read_bytes()).hexdigest())
    try:
        yield scorer
    finally:
        scorer.close()


def answers(*texts, expected=""):
    """Items that say these texts."""
    return [Item(row, [{"role": "user", "content": "?"}], text, expected) for row, text in enumerate(texts)]
