"""What can go wrong with names, versions, models and workloads."""

from optimize_site.kernel.errors import Conflict, InvalidInput, NotFound, Refused


class InvalidReference(InvalidInput):
    code = "invalid_reference"


class UnknownVersion(NotFound):
    code = "unknown_reference"


class AmbiguousName(NotFound):
    code = "ambiguous_name"


class ReservedAlias(Refused):
    code = "reserved_alias"


class MalformedName(Refused):
    code = "malformed_name"


class WorkloadExists(Conflict):
    code = "workload_exists"


class NamespaceTaken(Conflict):
    code = "namespace_taken"


class NamespaceArchived(Conflict):
    code = "namespace_archived"


class WorkloadArchived(Conflict):
    code = "workload_archived"


class WorkInProgress(Conflict):
    code = "work_in_progress"


class ChampionAlias(Conflict):
    code = "champion_alias"


class MalformedLineage(Refused):
    code = "lineage_invalid"


class CollectionRunning(Conflict):
    code = "collection_running"


class NotABaseModel(Refused):
    code = "not_a_base_model"


class UnsetReference(NotFound):
    code = "unset_reference"


class NoAdapter(Refused):
    code = "no_adapter"


class MalformedDescriptor(Refused):
    code = "malformed_descriptor"


class AdapterIncomplete(Refused):
    code = "adapter_incomplete"


class AdapterRefused(Refused):
    code = "adapter_refused"


class BundleUnknown(NotFound):
    code = "bundle_not_held"
