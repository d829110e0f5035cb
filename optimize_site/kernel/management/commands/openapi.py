"""`manage.py openapi [--check]`: the API's description, kept in docs/reference/openapi.json."""

import json
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.utils.module_loading import import_string

from optimize_site.settings import BASE_DIR

FILE = Path(BASE_DIR) / "docs" / "reference" / "openapi.json"


class Command(BaseCommand):
    help = "Write docs/reference/openapi.json, or with --check fail where it is stale."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--check", action="store_true")

    def handle(self, *args: Any, check: bool, **options: Any) -> None:
        schema = import_string(settings.API).get_openapi_schema()
        text = json.dumps(schema, indent=1, sort_keys=True, default=str) + "\n"
        if not check:
            FILE.parent.mkdir(parents=True, exist_ok=True)
            FILE.write_text(text)
        elif not FILE.exists() or FILE.read_text() != text:
            raise CommandError("docs/reference/openapi.json is stale: run `manage.py openapi` and commit it.")
