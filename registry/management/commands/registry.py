"""`./optimize registry`: namespaces, datasets, models and bundles by name and version, and clearing up."""

from registry.commands.aliases import add_alias_verbs
from registry.commands.bundles import BundleVerbs
from registry.commands.datasets import DatasetVerbs
from registry.commands.images import ImageVerbs
from registry.commands.models import ModelVerbs
from registry.commands.namespaces import NamespaceVerbs


class Command(DatasetVerbs, ImageVerbs, ModelVerbs, BundleVerbs, NamespaceVerbs):
    noun = "registry"
    help = "Namespaces, datasets, models and bundles by name and version."


for named in ("datasets", "models", "bundles"):
    add_alias_verbs(Command, named)
