"""Routes of images: which are missing, taking them in, the lists of them that rows are registered with."""

from typing import Any

from django.http import HttpRequest, StreamingHttpResponse
from ninja import Router, Status

from datasets import images
from datasets.models import Image
from datasets.schemas import AskedImages
from optimize_site.kernel.auth import actor_of
from optimize_site.kernel.blobs import open_blob, read_chunks
from optimize_site.kernel.bodies import BYTES, body_chunks
from optimize_site.kernel.downloads import download

router = Router(tags=["images"])


@router.post("/missing")
def missing(request: HttpRequest, body: AskedImages) -> dict[str, Any]:
    """Which of these images, named by SHA-256, the box lacks."""
    return {"missing": images.missing_images(body.sha256s, actor=actor_of(request))}


@router.post("", response={200: Any, 201: Any}, openapi_extra=BYTES)
def put(request: HttpRequest) -> Status[Any]:
    """Keep the body, a PNG, JPEG or WebP; 200 where it was kept already."""
    image, is_new = images.put_image(body_chunks(request), actor=actor_of(request))
    return Status(201 if is_new else 200, _document(image))


@router.post("/manifests", response={201: Any}, openapi_extra=BYTES)
def put_manifest(request: HttpRequest) -> Status[Any]:
    """Keep the body, one `{"path", "sha256"}` a line; rows that name those paths are registered with its `manifest`."""
    manifest, number = images.put_manifest(body_chunks(request), actor=actor_of(request))
    return Status(201, {"manifest": manifest, "imageCount": number})


@router.get("/{sha256}")
def get(request: HttpRequest, sha256: str) -> StreamingHttpResponse:
    """An image's bytes."""
    image = images.get_image(sha256)
    return download(request, _chunks(image.pk), name=image.pk, size=image.size_bytes, content_type=image.media_type)


def _chunks(sha256: str) -> Any:
    with open_blob(sha256) as file:
        yield from read_chunks(file)


def _document(image: Image) -> dict[str, Any]:
    return {"sha256": image.pk, "mediaType": image.media_type, "width": image.width, "height": image.height,
            "sizeBytes": image.size_bytes}
