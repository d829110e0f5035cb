"""`manage.py box_ready`: the step of a start between database and services; prints what the supervisor passes on."""

import json
from typing import Any

from django.core.management import call_command
from django.core.management.base import BaseCommand

from gpu_worker.devices import list_devices
from optimize_site.kernel import start


class Command(BaseCommand):
    help = "Bring the schema up to date, make the first admin, note the devices; prints one JSON document."
    requires_system_checks: list[str] = []

    def handle(self, *args: Any, **options: Any) -> None:
        call_command("migrate", interactive=False, stdout=self.stderr)
        start.sync_devices(list_devices())
        self.stdout.write(json.dumps({"adminPassword": start.first_admin()}))
