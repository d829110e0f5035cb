"""Commands without verbs: `info`, `capacity`."""

import argparse
from collections.abc import Sequence

from optimize_site.kernel.client import client_for
from optimize_site.kernel.commands import EXIT_DONE, Argument, NounCommand, Parser, common


class PlainCommand(NounCommand):
    """A noun that is its own verb: subclasses list `arguments` and answer in `ask`."""

    arguments: Sequence[Argument] = ()

    def ask(self, **values: object) -> int | None:
        """What the command does; its arguments come as keywords."""
        raise NotImplementedError

    def parser(self) -> argparse.ArgumentParser:
        parser = Parser(prog=f"./optimize {self.noun.replace('_', '-')}", description=self.help, parents=[common()])
        for argument in self.arguments:
            parser.add_argument(*argument.flags, **argument.options)
        return parser

    def _run(self, argv: Sequence[str]) -> int:
        self.options = self.parser().parse_args(list(argv))
        values = vars(self.options).copy()
        for name in ("output", "fields", "jq", "no_color", "quiet", "force", "context"):
            values.pop(name)
        self.client = client_for(self.options.context)
        return self.ask(**values) or EXIT_DONE
