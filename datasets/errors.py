"""What can go wrong with data."""

from optimize_site.kernel.errors import Conflict, NotFound, OperationError, Refused, TooLarge


class DatasetInvalid(Refused):
    code = "dataset_invalid"
    title = "The file is no dataset"


class DatasetTooLarge(TooLarge):
    code = "dataset_too_large"


class FileDoesNotFit(DatasetTooLarge):
    code = "file_does_not_fit"


class FormatUnknown(Refused):
    code = "unknown_format"


class FormatMismatch(Refused):
    code = "format_mismatch"


class ShardInvalid(Refused):
    code = "invalid_shards"


class ShardMismatch(Refused):
    code = "shard_mismatch"


class UploadUnknown(NotFound):
    code = "unknown_upload"


class UploadClosed(Conflict):
    code = "upload_closed"


class UploadIncomplete(Conflict):
    code = "upload_incomplete"


class SplitImpossible(Refused):
    code = "split_impossible"


class ObjectUnknown(NotFound):
    code = "unknown_object"


class RowUnknown(NotFound):
    code = "unknown_row"


class RowsGone(NotFound):
    code = "rows_gone"


class RowsNotComparable(Refused):
    code = "rows_not_comparable"


class RowsNotSearchable(Refused):
    code = "rows_not_searchable"


class SourceUnreadable(Refused):
    code = "source_unreadable"


class ImportRefused(Refused):
    code = "import_refused"


class ImageInvalid(Refused):
    code = "image_invalid"


class ImageUnknown(NotFound):
    code = "unknown_image"


class DiskFull(OperationError):
    code, status, title = "disk_full", 507, "The disk is full"
