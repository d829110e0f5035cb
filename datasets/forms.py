"""The upload form."""

from dataclasses import dataclass

from django.core.files.uploadedfile import UploadedFile
from django.http import HttpRequest

from datasets.errors import DatasetInvalid
from datasets.ingest import refuse_too_large
from optimize_site.kernel.bodies import body_length
from optimize_site.kernel.conf import setting
from optimize_site.kernel.errors import Problem
from optimize_site.kernel.uploads import ROOM_FOR_FIELDS


@dataclass(frozen=True)
class Upload:
    """A filled upload form."""

    reference: str
    description: str
    alias: str
    file: UploadedFile


def read_upload(request: HttpRequest) -> Upload:
    """What the form holds. Raises DatasetTooLarge, DatasetInvalid where there is no file."""
    refuse_too_large((body_length(request) or 0) - ROOM_FOR_FIELDS, int(setting("trainer.datasets.max-bytes")))
    file = request.FILES.get("file")
    if not isinstance(file, UploadedFile):
        said = "No file was chosen."
        raise DatasetInvalid(said, hint="Choose a file of chat rows, one JSON object a line.",
                             problems=[Problem("file", "no_file", said)])
    sent = request.POST
    return Upload(sent.get("reference", "").strip(), sent.get("description", "").strip(),
                  sent.get("alias", "").strip(), file)
