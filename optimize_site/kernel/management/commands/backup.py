"""`./optimize backup FILE`: the whole state in one file."""

from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from optimize_site.appliance.backup import make_backup
from optimize_site.appliance.errors import ApplianceError
from optimize_site.appliance.places import Places


class Command(BaseCommand):
    help = "Write the database and every file of the state into one file, whether the box is up or down."
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("file", metavar="FILE", type=Path)

    def handle(self, *args: Any, **options: Any) -> None:
        file: Path = options["file"].absolute()
        try:
            manifest = make_backup(Places.here(), file)
        except ApplianceError as error:
            raise CommandError(str(error)) from error
        size = file.stat().st_size / 1024**2
        self.stdout.write(f"{file}: {len(manifest['files'])} files, {size:.1f} MiB. It holds secrets; keep it private.")
