"""Keeps a browser's upload from filling the disk before anybody has looked at it."""

from typing import Any

from django.core.files.uploadhandler import FileUploadHandler, StopUpload

from optimize_site.kernel.conf import setting

ROOM_FOR_FIELDS = 1 << 20


class OnlyExpectedUploads(FileUploadHandler):
    """Stops reading a file that a stranger sends, or one longer than this box takes; the view then finds no file."""

    is_too_long = False

    def handle_raw_input(self, input_data: Any, META: dict[str, Any], content_length: int, boundary: Any,
                         encoding: str | None = None) -> None:
        self.is_too_long = content_length > int(setting("trainer.datasets.max-bytes")) + ROOM_FOR_FIELDS

    def new_file(self, *args: Any, **kwargs: Any) -> None:
        if self.is_too_long or self.request is None or not self.request.user.is_authenticated:
            raise StopUpload(connection_reset=True)

    def receive_data_chunk(self, raw_data: bytes, start: int) -> bytes:
        return raw_data

    def file_complete(self, file_size: int) -> None:
        """The next handler keeps the file."""
