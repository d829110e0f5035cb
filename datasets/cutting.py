"""Cuts a file of lines into shards: on line boundaries, each as large as fits, the same for the same file and size."""

MAX_SHARDS = 1000
MAX_SHARD_BYTES = 256 * 1024 * 1024


def shard_path(place: int, number: int) -> str:
    """The path of one of `number` shards in a version's listing; a file that was not cut is `examples.jsonl`."""
    return "examples.jsonl" if number == 1 else f"examples-{place:05}.jsonl"
