"""Reads of uploads in shards: the limits, what one still lacks."""

from collections.abc import Iterable
from datetime import timedelta
from typing import Any

from django.db.models import QuerySet

from datasets.cutting import MAX_SHARD_BYTES, MAX_SHARDS
from datasets.errors import UploadUnknown
from datasets.models import Shard, Upload
from optimize_site.kernel import clock
from optimize_site.kernel.blobs import hold
from optimize_site.kernel.conf import setting

KEPT_FOR = timedelta(days=7)


def limits() -> dict[str, int]:
    """What the box takes: the bytes of one upload, the number and bytes of shards, the days an upload is kept."""
    most = int(setting("trainer.datasets.max-bytes"))
    return {"maxBytes": most, "maxShards": MAX_SHARDS, "maxShardBytes": min(MAX_SHARD_BYTES, most),
            "uploadDays": KEPT_FOR.days}


def get_upload(upload_id: str, among: QuerySet[Upload] | None = None) -> Upload:
    """One upload. Raises UploadUnknown, also for one whose time is over."""
    rows = Upload.objects.all() if among is None else among
    found = rows.filter(pk=upload_id, expires_at__gte=clock.now()).first()
    if found is None:
        raise UploadUnknown(f"There is no upload {upload_id[:12]}.", hint="Open it again: the shards that were sent "
                            f"are still here for a while. An upload is kept for {KEPT_FOR.days} days.")
    return found


def list_uploads() -> QuerySet[Upload]:
    """Uploads that were not completed yet, newest first."""
    return Upload.objects.filter(phase=Upload.Phase.OPEN, expires_at__gte=clock.now()).order_by("-created_at")


def shard_of(upload: Upload, path: str) -> int:
    """The place of a shard by its path. Raises UploadUnknown."""
    place = next((place for place, item in enumerate(upload.planned) if item["path"] == path), None)
    if place is None:
        raise UploadUnknown(f"The upload {upload.pk[:12]} has no shard {path[:40]!r}.",
                            hint=f"It has {upload.planned[0]['path']} to {upload.planned[-1]['path']}.")
    return place


def lacking(upload: Upload) -> list[dict[str, Any]]:
    """The shards that the box does not hold, in order; those it holds stay here meanwhile."""
    held = hold(item["sha256"] for item in upload.planned)
    return [item for item in upload.planned if item["sha256"] not in held]


def is_hashed(item: dict[str, Any]) -> bool:
    """Whether a shard's sender said its SHA-256 beforehand; an upload of an earlier version always did."""
    return bool(item.get("isHashed", True))


def listing(upload: Upload) -> list[dict[str, Any]]:
    """The shards as a version lists them; the SHA-256 is empty of one that did not come and was not hashed before."""
    return [{key: item[key] for key in ("path", "sha256", "bytes")} for item in upload.planned]


def held_sizes(sizes: Iterable[int]) -> list[int]:
    """Which of these sizes a file of rows has that the box holds: only such a file may be held already."""
    return sorted(set(Shard.objects.filter(size_bytes__in=set(sizes)).values_list("size_bytes", flat=True)))


def names_images(upload: Upload) -> bool:
    """Whether a shard that was taken in names images, so that they are to be sent before the upload is completed."""
    shards = Shard.objects.filter(pk__in=[item["sha256"] for item in upload.planned])
    return shards.filter(found__examiner__has_key="images").exclude(found__examiner__images={}).exists()
