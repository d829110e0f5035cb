"""`manage.py box_ready`: the last step of a start; prints what the supervisor passes on."""

import json
from typing import Any

from django.core.management.base import BaseCommand

from gpu_worker.devices import list_devices
from optimize_site.kernel import start


class Command(BaseCommand):
    help = "Make the first admin and note the devices; prints one JSON document."

    def handle(self, *args: Any, **options: Any) -> None:
        start.sync_devices(list_devices())
        self.stdout.write(json.dumps({"adminPassword": start.first_admin()}))
