"""Our nouns: the commands that this project gives `./optimize`."""

from collections.abc import Iterator

from django.core.management import get_commands, load_command_class

from optimize_site.kernel.commands import NounCommand

OURS = {"optimize_site.kernel", "registry", "datasets", "runs", "evaluations", "endpoints", "gpu_worker"}
"""The apps whose commands they are."""


def our_commands() -> Iterator[NounCommand]:
    """Every noun, in the order of the alphabet."""
    for name, app in sorted(get_commands().items()):
        if app in OURS:
            command = load_command_class(str(app), name)
            if isinstance(command, NounCommand):
                yield command
