"""`./optimize restore FILE`: the whole state back from one file."""

from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from optimize_site.appliance.backup import restore_backup
from optimize_site.appliance.errors import ApplianceError
from optimize_site.appliance.places import Places


class Command(BaseCommand):
    help = "Make the state what a backup holds; the box must be down."
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("file", metavar="FILE", type=Path)
        parser.add_argument("--force", action="store_true", help="move a state that is there aside")

    def handle(self, *args: Any, **options: Any) -> None:
        places = Places.here()
        try:
            manifest = restore_backup(places, options["file"].absolute(), force=options["force"])
        except ApplianceError as error:
            raise CommandError(str(error)) from error
        self.stdout.write(f"{len(manifest['files'])} files restored into {places.home}. Start the box: ./optimize up")
