"""The servers that stand in for ours: DATABASE_URL and REDIS_URL."""

import os
from urllib.parse import urlsplit

from optimize_site.appliance.errors import ApplianceError
from optimize_site.appliance.places import Places
from optimize_site.appliance.python import module, run


def outside_url(places: Places, variable: str) -> str:
    """The address in the variable, checked to answer; empty where it is not set."""
    url = os.environ.get(variable, "")
    if url:
        done = run(places, module("optimize_site.appliance.probe", variable))
        if done.returncode:
            fault = done.stdout.strip() or done.stderr.strip()[-500:]
            raise ApplianceError(
                f"The server that {variable} names ({without_password(url)}) cannot be used: {fault}.",
                hint=f"Start or correct it, or unset {variable} to use the server that Optimize carries.",
            )
    return url


def without_password(url: str) -> str:
    """The address, fit to be shown."""
    password = urlsplit(url).password
    return url.replace(f":{password}@", ":…@", 1) if password else url
