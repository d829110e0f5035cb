"""`registry models …`."""

from optimize_site.kernel.commands import NounCommand


class ModelVerbs(NounCommand):
    """What can be done with named models."""
