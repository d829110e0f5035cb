"""`./optimize registry`: namespaces, datasets, models and bundles by name and version, and clearing up."""

from registry.commands.aliases import alias_verbs
from registry.commands.bundles import BundleVerbs
from registry.commands.datasets import DatasetVerbs
from registry.commands.images import ImageVerbs
from registry.commands.models import ModelVerbs
from registry.commands.namespaces import NamespaceVerbs

DATASET_ALIASES, MODEL_ALIASES, BUNDLE_ALIASES = map(alias_verbs, ("datasets", "models", "bundles"))


class Command(DatasetVerbs, ImageVerbs, ModelVerbs, BundleVerbs, NamespaceVerbs, DATASET_ALIASES, MODEL_ALIASES,
              BUNDLE_ALIASES):
    noun = "registry"
    help = "Namespaces, datasets, models and bundles by name and version."
