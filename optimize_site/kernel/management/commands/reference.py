"""`manage.py reference [--check]`: the reference pages that are read off the code."""

from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from optimize_site.kernel.reference import PAGES
from optimize_site.settings import BASE_DIR

FOLDER = Path(BASE_DIR) / "docs" / "reference"


class Command(BaseCommand):
    help = "Write docs/reference/commands.md and api.md, or with --check fail where they are stale."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--check", action="store_true")

    def handle(self, *args: Any, check: bool, **options: Any) -> None:
        for name, write in PAGES.items():
            text, path = write(), FOLDER / name
            if not check:
                path.write_text(text)
            elif not path.exists() or path.read_text() != text:
                raise CommandError(f"docs/reference/{name} is stale: run `manage.py reference` and commit it.")
