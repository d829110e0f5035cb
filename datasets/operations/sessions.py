"""Uploads in shards: announced, taken in one by one, put together as one version; cleaned up where they stopped."""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from threading import Lock
from typing import Any

from django.db import connection, transaction

from datasets.cutting import MAX_SHARDS, shard_path, shown
from datasets.errors import (
    DatasetInvalid,
    FormatMismatch,
    ShardInvalid,
    ShardMismatch,
    UploadClosed,
    UploadIncomplete,
)
from datasets.findings import MAX_COMPARED_ROWS
from datasets.formats import FormatFacts
from datasets.formats.of_lines import ROW_FORMATS
from datasets.identity import Identity
from datasets.images import hashed_images, with_images
from datasets.ingest import Examined, examine_file, facts_of
from datasets.models import Shard, Upload
from datasets.operations.intake import Contents, contents_of_rows, keep_shard, listed, take_shard
from datasets.operations.registering import Registered, check_names, check_stated_format, keep_version
from datasets.queries import example_set
from datasets.stretches import Region, Stretch, read_region, stretch_of
from datasets.upload_queries import KEPT_FOR, get_upload, is_hashed, lacking, limits, listing, shard_of
from optimize_site.kernel import clock
from optimize_site.kernel.auth import Actor
from optimize_site.kernel.blobs import blob_path, hold
from optimize_site.kernel.conf import home
from optimize_site.kernel.errors import Problem
from optimize_site.kernel.hashing import sha256_json
from optimize_site.kernel.models import Blob
from registry.lineage import resolve_lineage
from registry.models import Artifact, Version
from registry.operations.artifacts import NewVersion
from registry.operations.namespaces import check_open
from registry.references import parse_artifact

SCRATCH_KEPT_FOR = timedelta(hours=1)
SHA256 = re.compile(r"[0-9a-f]{64}")
Names = tuple[str, ...]
MOST_HASHED = 32
_keeping = Lock()
_hashed: dict[Names, Identity] = {}
"""The rows of shards that came in order, hashed together, by the shards' names: what this process would hash again."""
OPEN, REGISTERED = Upload.Phase.OPEN, Upload.Phase.REGISTERED


@dataclass(frozen=True)
class Announced:
    """What the sender says of an upload: the SHA-256 and bytes of each shard in order, and what to register.

    The SHA-256 is empty of a shard that the sender did not read beforehand; what comes tells it.
    """

    reference: str
    shards: Sequence[tuple[str, int]]
    alias: str = ""
    format: str = ""
    description: str = ""
    lineage: dict[str, Any] = field(default_factory=dict)


# Opening -------------------------------------------------------------------------------------------------------------


def open_upload(announced: Announced, *, actor: Actor) -> tuple[Upload, bool]:
    """Announce a dataset's shards; gives the upload that is open for the same shards under the same name, with False.

    Of a shard that came already the sender has to show the SHA-256, else it is another upload.
    Raises ShardInvalid for shards beyond the limits, ShardMismatch for bytes of another length than the box holds,
    InvalidReference, ReservedAlias, FormatUnknown, FormatMismatch, NamespaceArchived, MalformedLineage, Forbidden.
    """
    actor.require("operator")
    check_names(announced.reference, announced.alias, announced.format)
    if announced.format and announced.format not in ROW_FORMATS:
        raise FormatMismatch(f"Shards hold rows, and {announced.format} is sent as one ZIP.",
                             hint="Send the archive as the body of a new version.")
    namespace = parse_artifact(announced.reference).namespace
    check_open(namespace)
    resolve_lineage(announced.lineage, namespace)
    planned = _planned(announced.shards)
    stated = {"alias": announced.alias, "format": announced.format, "description": announced.description,
              "lineage": announced.lineage, "expires_at": clock.now() + KEPT_FOR}
    with transaction.atomic():
        _one_at_a_time(announced.reference, actor.name, planned)
        kept = Upload.objects.select_for_update().filter(phase=OPEN, reference=announced.reference,
                                                         created_by=actor.name)
        found = next((upload for upload in kept if _are_same(upload.planned, planned)), None)
        if found is None:
            return Upload.objects.create(reference=announced.reference, planned=planned, created_by=actor.name,
                                         **stated), True
        known = [item if item["sha256"] else before for before, item in zip(found.planned, planned, strict=True)]
        Upload.objects.filter(pk=found.pk).update(planned=known, **stated)
    found.refresh_from_db()
    return found, False


def _are_same(kept: Sequence[dict[str, Any]], announced: Sequence[dict[str, Any]]) -> bool:
    """Whether an announcement is of the shards of an open upload: as large each, and each that is known the same."""
    return [item["bytes"] for item in kept] == [item["bytes"] for item in announced] and all(
        before["sha256"] in ("", item["sha256"]) for before, item in zip(kept, announced, strict=True))


def _one_at_a_time(reference: str, sender: str, planned: list[dict[str, Any]]) -> None:
    """Wait for who announces an upload as large, until the transaction ends, and so find what they opened."""
    sizes = [item["bytes"] for item in planned]
    key = int.from_bytes(bytes.fromhex(sha256_json([reference, sender, sizes]))[:8], signed=True)
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_xact_lock(%s)", [key])


def _planned(shards: Sequence[tuple[str, int]]) -> list[dict[str, Any]]:
    most = limits()
    if not 1 <= len(shards) <= MAX_SHARDS:
        raise ShardInvalid(f"The upload has {len(shards):,} shards; a dataset has 1 to {MAX_SHARDS:,}.",
                           hint="Cut the file into larger shards." if shards else "Announce the file as one shard.")
    problems = list(_shard_problems(shards, int(most["maxBytes" if len(shards) == 1 else "maxShardBytes"])))
    if problems:
        raise ShardInvalid(f"{problems[0].path}: {problems[0].message}", problems=problems[:20])
    return [{"path": shard_path(place, len(shards)), "sha256": sha256, "bytes": size, "isHashed": bool(sha256)}
            for place, (sha256, size) in enumerate(shards)]


def _shard_problems(shards: Sequence[tuple[str, int]], most: int) -> Iterator[Problem]:
    held = dict(Blob.objects.filter(pk__in=[sha256 for sha256, _ in shards]).values_list("sha256", "size_bytes"))
    for place, (sha256, size) in enumerate(shards):
        if sha256 and not SHA256.fullmatch(sha256):
            yield Problem(f"shards[{place}].sha256", "invalid_digest", "This is no SHA-256 in 64 lower-case digits.")
        elif not 1 <= size <= most:
            yield Problem(f"shards[{place}].bytes", "shard_size", f"The shard has {size:,} bytes; it has 1 to {most:,} "
                          f"({shown(most)}).", "Cut the file into smaller shards." if size > most else
                          "A shard holds at least one row.")
        elif held.get(sha256, size) != size:
            yield Problem(f"shards[{place}].bytes", "shard_mismatch", f"The bytes with this hash are {held[sha256]:,}, "
                          f"not {size:,}.")


# Taking in -----------------------------------------------------------------------------------------------------------


def put_shard(upload: Upload, path: str, chunks: Iterable[bytes], *, actor: Actor, length: int | None = None) -> str:
    """Take in one shard, examined like a file of its own; one that is held already is not read again. Gives its
    SHA-256.

    Raises UploadClosed, UploadUnknown for a path it does not have, ShardMismatch for other bytes than were announced,
    or came before, DatasetInvalid with the shard's bad lines, FormatMismatch, DiskFull.
    """
    actor.require("operator")
    _require_open(upload)
    place = shard_of(upload, path)
    item = upload.planned[place]
    sha256: str = item["sha256"]
    if not (is_hashed(item) and hold([sha256])):
        if length is not None:
            _check_length(item, length)
        earlier = Shard.objects.filter(pk__in=[other["sha256"] for other in upload.planned[:place]])
        compared = MAX_COMPARED_ROWS - sum(earlier.values_list("num_examples", flat=True))
        others = set(earlier.values_list("found__format", flat=True)[:2])
        before = _hashed.get(_names(upload.planned[:place]))
        shard, found = take_shard(_announced(chunks, item), compared=max(0, compared), before=before,
                              name=path if len(upload.planned) > 1 else "",
                              check=lambda found: _check_shard(found, upload, place, others))
        sha256 = shard.sha256
        if before is not None or not place:
            _keep_hashed((*_names(upload.planned[:place]), sha256), found.together)
        if not is_hashed(item):
            _note_came(upload, place, sha256)
    Upload.objects.filter(pk=upload.pk, phase=OPEN).update(expires_at=clock.now() + KEPT_FOR)
    return sha256


def _announced(chunks: Iterable[bytes], item: dict[str, Any]) -> Iterator[bytes]:
    size = 0
    for chunk in chunks:
        size += len(chunk)
        if size > item["bytes"]:
            _check_length(item, size)
        yield chunk
    _check_length(item, size)


def _check_length(item: dict[str, Any], size: int) -> None:
    if size != item["bytes"]:
        raise ShardMismatch(f"{item['path']} was announced with {item['bytes']:,} bytes and came with {size:,}.",
                            hint="Send the bytes that were announced; run the command again for a file that changed.")


def _check_shard(found: Examined, upload: Upload, place: int, formats: set[str]) -> None:
    item = upload.planned[place]
    _check_same_bytes(item, found.identity.bytes_hash())
    check_stated_format(upload.format, found.stretch.format)
    for known in formats:
        _check_same_format(item["path"], found.stretch.format, known)
    if place:
        _check_mark(found.stretch, item["path"])


def _check_same_bytes(item: dict[str, Any], sha256: str) -> None:
    """Of a shard that was announced without its hash what came first counts."""
    if item["sha256"] not in ("", sha256):
        was = "was announced" if is_hashed(item) else "came before"
        raise ShardMismatch(f"{item['path']} {was} as {item['sha256'][:12]} and came as {sha256[:12]}.",
                            hint="Send the bytes that were announced; run the command again for a file that changed.")


@transaction.atomic
def _note_came(upload: Upload, place: int, sha256: str) -> None:
    """Say which bytes a shard turned out to be. Raises ShardMismatch where others came at the same time, UploadUnknown
    where the upload was given up meanwhile."""
    planned = get_upload(upload.pk, Upload.objects.select_for_update()).planned
    _check_same_bytes(planned[place], sha256)
    planned[place]["sha256"] = sha256
    Upload.objects.filter(pk=upload.pk).update(planned=planned)


def _check_same_format(path: str, found: str, known: str) -> None:
    if found != known:
        raise DatasetInvalid(f"{path} is {found} and the shards before it are {known}.",
                             hint="A dataset has one format; register them as two.",
                             problems=[Problem(path, "mixed_formats", "The rows are of another format.")])


def _check_mark(stretch: Stretch, path: str) -> None:
    if stretch.has_byte_order_mark:
        raise DatasetInvalid(f"{path} opens with a byte order mark; only the first shard may.", problems=[
            Problem(f"{path} line 1", "byte_order_mark", "A byte order mark stands inside the dataset.")],
            hint="Remove it; it is left over from joining files.")


def _require_open(upload: Upload) -> None:
    if upload.phase != OPEN:
        raise UploadClosed(f"The upload {upload.pk[:12]} is registered; it takes no more shards.",
                           hint=f"Open another for {upload.reference}.")


# Putting together ----------------------------------------------------------------------------------------------------


def complete_upload(upload: Upload, *, actor: Actor, images: str = "") -> Registered:
    """Register the shards as one version; `images` is the digest of the list of images that was sent for them.

    Done once, it gives the same version again. Raises UploadIncomplete naming what is missing, UploadClosed,
    DatasetInvalid for what only shows in all shards together, and what registering raises.
    """
    actor.require("operator")
    if upload.phase == REGISTERED:
        version = Version.objects.select_related("artifact__namespace").get(pk=upload.version_id)
        return Registered(version, example_set(version), is_new=False)
    _require_open(upload)
    missing = lacking(upload)
    if missing:
        raise UploadIncomplete(f"{len(missing)} of {len(upload.planned)} shards are missing; the first is "
                               f"{missing[0]['path']}.", hint="Send them, then complete the upload.",
                               missing=[item["path"] for item in missing])
    contents = _known(upload) or _together(upload, images)
    with transaction.atomic():
        done = keep_version(upload.reference, contents, actor=actor, alias=upload.alias, lineage=upload.lineage,
                            description=upload.description)
        Upload.objects.filter(pk=upload.pk).update(phase=REGISTERED, version_id=done.version.pk)
    return done


def _known(upload: Upload) -> Contents | None:
    """The contents of these very files where a version lists them: nothing of them is looked at again."""
    digest = NewVersion("", listing(upload)).digest
    version = Version.objects.filter(artifact__kind=Artifact.Kind.DATASET, digest=digest).first()
    if version is None:
        return None
    examples = example_set(version)
    check_stated_format(upload.format, examples.format)
    facts = FormatFacts(examples.num_tool_rows, examples.num_images, examples.statistics, examples.findings,
                        examples.details)
    return Contents(examples.format, examples.pk, examples.num_examples, examples.num_blank_lines, listing(upload),
                    examples.shards, facts, {})


def _together(upload: Upload, images: str) -> Contents:
    whole, shards = _merged(upload)
    check_stated_format(upload.format, whole.format)
    facts = with_images(facts_of(whole), images)
    suffix = hashed_images(facts)
    content_hash = shards[0][1].rows_hash if len(shards) == 1 and not suffix else _rows_hash(upload, suffix)
    return contents_of_rows(whole, facts, [listed(*shard) for shard in shards], content_hash)


def _merged(upload: Upload) -> tuple[Stretch, list[tuple[str, Shard]]]:
    """What the shards hold together, and each by its path. Raises DatasetInvalid for what shows only in all of them."""
    whole, shards = Stretch(), list[tuple[str, Shard]]()
    for place, item in enumerate(upload.planned):
        shard = _examined(item)
        stretch = stretch_of(shard.found)
        if place:
            _check_same_format(item["path"], stretch.format, whole.format)
            _check_mark(stretch, item["path"])
        whole.merge(stretch)
        shards.append((item["path"], shard))
    return whole, shards


def _examined(item: dict[str, Any]) -> Shard:
    """What a held file of rows was found to hold; one that came in otherwise is looked at now."""
    shard = Shard.objects.filter(pk=item["sha256"]).first()
    if shard is not None:
        return shard
    return keep_shard(item["sha256"], examine_file(blob_path(item["sha256"]), name=item["path"]))


def _rows_hash(upload: Upload, suffix: bytes) -> str:
    """The hash of the rows of all shards, one after the other: that of the file they were cut from.

    Shards that were hashed together when they came are not read again.
    """
    hashed, rest = _hashed_together(upload.planned)
    identity = hashed.going_on()
    for item in rest:
        region = Region(str(blob_path(item["sha256"])), 0, item["bytes"])
        found = stretch_of(Shard.objects.get(pk=item["sha256"]).found)
        if found.is_exact:
            identity.add_exact(read_region(region))
        else:
            identity.add(read_region(region))
        identity = identity.going_on()
    return identity.rows_hash(suffix)


def _names(shards: Sequence[dict[str, Any]]) -> Names:
    return tuple(item["sha256"] for item in shards)


def _hashed_together(shards: Sequence[dict[str, Any]]) -> tuple[Identity, Sequence[dict[str, Any]]]:
    """As many of the first shards as were hashed together, and the shards behind them."""
    for place in range(len(shards), 0, -1):
        identity = _hashed.get(_names(shards[:place]))
        if identity is not None:
            return identity, shards[place:]
    return Identity(), shards


def _keep_hashed(names: Names, identity: Identity) -> None:
    """Remember the rows of these shards in order; the next shard's are added to them, so the earlier ones may go."""
    with _keeping:
        _hashed.pop(names[:-1], None)
        while len(_hashed) >= MOST_HASHED:
            _hashed.pop(next(iter(_hashed)))
        _hashed[names] = identity


# Ending --------------------------------------------------------------------------------------------------------------


def abandon_upload(upload: Upload, *, actor: Actor) -> None:
    """Give an upload up: its shards may be collected. Raises UploadClosed for one that is registered."""
    actor.require("operator")
    _require_open(upload)
    Upload.objects.filter(pk=upload.pk, phase=OPEN).delete()


def clean_uploads() -> None:
    """Forget uploads that nobody went on with, and delete what a killed process left half written.

    One that would be kept for longer than any is was opened before the clock was set back: its days begin now.
    """
    Upload.objects.filter(expires_at__lt=clock.now()).delete()
    Upload.objects.filter(expires_at__gt=clock.now() + KEPT_FOR).update(expires_at=clock.now() + KEPT_FOR)
    oldest = clock.now().timestamp() - SCRATCH_KEPT_FOR.total_seconds()
    for path in (home() / "scratch").glob("*"):
        try:
            if path.is_file() and path.stat().st_mtime < oldest:
                path.unlink()
        except FileNotFoundError:
            continue  # its writer was done with it meanwhile
