"""`./optimize registry`: namespaces, datasets and models by name and version."""

from registry.commands.datasets import DatasetVerbs
from registry.commands.images import ImageVerbs
from registry.commands.models import ModelVerbs
from registry.commands.namespaces import NamespaceVerbs


class Command(DatasetVerbs, ImageVerbs, ModelVerbs, NamespaceVerbs):
    noun = "registry"
    help = "Namespaces, datasets and models by name and version."
