"""Routes of uploads in shards: announce, send what is missing, complete."""

from typing import Any

from django.http import HttpRequest
from ninja import Router, Status

from datasets import operations, render, upload_queries
from datasets.schemas import AskedSizes, Completion, NewUpload
from optimize_site.kernel.api import DEFAULT_LIMIT, page
from optimize_site.kernel.auth import actor_of
from optimize_site.kernel.bodies import BYTES, body_chunks, body_length

router = Router(tags=["datasets"])


@router.get("")
def list_uploads(request: HttpRequest, limit: int = DEFAULT_LIMIT, offset: int = 0) -> dict[str, Any]:
    """Uploads that were not completed yet, newest first."""
    return page(upload_queries.list_uploads(), "uploads", render.listed_upload, limit=limit, offset=offset)


@router.post("", response={200: Any, 201: Any})
def open_upload(request: HttpRequest, body: NewUpload) -> Status[Any]:
    """Announce the shards of a dataset; 200 with the upload that is open for them already. `missing` is to be sent."""
    announced = operations.Announced(body.reference, [(shard.sha256, shard.bytes) for shard in body.shards],
                                     alias=body.alias, format=body.format, description=body.description,
                                     lineage=body.lineage)
    upload, is_new = operations.open_upload(announced, actor=actor_of(request))
    return Status(201 if is_new else 200, render.upload(upload))


@router.post("/sizes")
def ask_sizes(request: HttpRequest, body: AskedSizes) -> dict[str, Any]:
    """Which of these sizes a file of rows has that is held here: a shard of another size is not, and needs no hash."""
    return {"held": upload_queries.held_sizes(body.bytes)}


@router.get("/{upload_id}")
def get_upload(request: HttpRequest, upload_id: str) -> dict[str, Any]:
    """An upload: its shards, and which are missing."""
    return render.upload(upload_queries.get_upload(upload_id))


@router.put("/{upload_id}/shards/{path}", openapi_extra=BYTES)
def put_shard(request: HttpRequest, upload_id: str, path: str) -> dict[str, Any]:
    """Send one shard as the body; every row is checked, and a shard with a bad one is refused whole."""
    upload = upload_queries.get_upload(upload_id)
    sha256 = operations.put_shard(upload, path, body_chunks(request), length=body_length(request),
                                  actor=actor_of(request))
    return render.listed_upload(upload) | {"path": path, "sha256": sha256}


@router.post("/{upload_id}/complete", response={200: Any, 201: Any})
def complete_upload(request: HttpRequest, upload_id: str, body: Completion) -> Status[Any]:
    """Register the shards as the next version; 200 where it was there already."""
    done = operations.complete_upload(upload_queries.get_upload(upload_id), images=body.images,
                                      actor=actor_of(request))
    return Status(201 if done.is_new else 200, render.registered(done))


@router.post("/{upload_id}/abandon", response={204: None})
def abandon_upload(request: HttpRequest, upload_id: str) -> Status[None]:
    """Give an upload up."""
    operations.abandon_upload(upload_queries.get_upload(upload_id), actor=actor_of(request))
    return Status(204, None)
