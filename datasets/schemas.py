"""Bodies that the datasets' routes take."""

from typing import Any

from pydantic import Field

from optimize_site.kernel.api import Body


class NameTarget(Body):
    """The dataset a bare name shall point at: a hash, a prefix of one, a name or a reference."""

    dataset: str


class AskedImages(Body):
    """Images by the SHA-256 of their bytes, at most 1,000."""

    sha256s: list[str]


class PlannedShard(Body):
    """One shard of an upload: the SHA-256 of its bytes, and how many they are. Without the hash it is sent in any case,
    and what comes tells it."""

    sha256: str = ""
    bytes: int


class AskedSizes(Body):
    """How many bytes each shard of a file has."""

    bytes: list[int] = Field(max_length=1000)


class NewUpload(Body):
    """A dataset that is to be sent in shards, in the order of its rows."""

    reference: str
    shards: list[PlannedShard] = Field(max_length=1001)
    alias: str = ""
    format: str = Field("", max_length=40)
    description: str = ""
    lineage: dict[str, Any] = {}


class Completion(Body):
    """What completes an upload: the `manifest` of the images that its rows name, where they do."""

    images: str = ""
