"""What changes data: registering files as datasets, the bare names that point at them."""

from datasets.operations.registering import Registered, check_lineage, create_dataset, name_dataset, register_dataset

__all__ = ["Registered", "check_lineage", "create_dataset", "name_dataset", "register_dataset"]
