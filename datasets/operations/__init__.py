"""What changes data: registering files as datasets, the bare names that point at them, uploads in shards."""

from datasets.operations.registering import Registered, create_dataset, name_dataset, register_dataset
from datasets.operations.sessions import (
    Announced,
    abandon_upload,
    clean_uploads,
    complete_upload,
    open_upload,
    put_shard,
)

__all__ = ["Announced", "Registered", "abandon_upload", "clean_uploads", "complete_upload",
           "create_dataset", "name_dataset", "open_upload", "put_shard", "register_dataset"]
