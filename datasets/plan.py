"""A dataset as a job's plan names it."""

from typing import Any

from datasets.formats.prepared import FORMAT
from datasets.models import ExampleSet
from optimize_site.kernel.blobs import blob_path
from optimize_site.kernel.plan_parts import rows_part


def dataset_part(examples: ExampleSet, *, name: str) -> dict[str, Any]:
    """The examples, called `name` in what the job says."""
    files = [str(blob_path(shard["sha256"])) for shard in examples.shards]
    images = {image["path"]: str(blob_path(image["sha256"])) for image in examples.details.get("images", [])}
    return rows_part(files, content_hash=examples.pk, num_examples=examples.num_examples, name=name,
                     format=examples.format, images=images, prepared=_prepared(examples))


def _prepared(examples: ExampleSet) -> dict[str, Any]:
    """What prepared rows were made with and what their files are called; empty for rows that the job renders itself."""
    if examples.format != FORMAT:
        return {}
    made = {name: examples.details[name] for name in ("tokenizer", "chatTemplateSha256") if name in examples.details}
    return made | {"files": [shard["path"] for shard in examples.shards]}
