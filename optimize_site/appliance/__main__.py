"""The launcher's own verbs: up, down, logs."""

import argparse
import sys

from optimize_site.appliance.errors import ApplianceError
from optimize_site.appliance.logs import show_logs
from optimize_site.appliance.places import Places
from optimize_site.appliance.up import run_detached, run_down, run_reporting, run_up, standard_console


def parser() -> argparse.ArgumentParser:
    """The grammar of the verbs."""
    root = argparse.ArgumentParser(prog="./optimize")
    verbs = root.add_subparsers(dest="verb", required=True)
    up = verbs.add_parser("up", help="start the box and keep it running")
    up.add_argument("--detach", "-d", action="store_true", help="return as soon as the box is ready")
    verbs.add_parser("down", help="stop the box; running jobs save first")
    logs = verbs.add_parser("logs", help="show the ends of the logs")
    logs.add_argument("name", nargs="?", metavar="NAME", help="one log alone: web, control, postgres, …")
    logs.add_argument("--follow", "-f", action="store_true", help="go on showing new lines")
    logs.add_argument("--lines", "-n", type=int, help="how many lines of each (100 of one, 10 of all)")
    return root


def run(arguments: argparse.Namespace) -> int:
    """Do what the verb says; the exit status."""
    places = Places.here()
    if arguments.verb == "down":
        return run_down(places)
    if arguments.verb == "logs":
        count = arguments.lines or (100 if arguments.name else 10)
        show_logs(places.logs, arguments.name, follow=arguments.follow, count=count)
        return 0
    if arguments.detach:
        return run_detached(places)
    places.create()
    console = standard_console(places)
    return run_reporting(lambda: run_up(places, console), console)


def main() -> int:
    """Run one verb; a fault is told in sentences."""
    try:
        return run(parser().parse_args())
    except ApplianceError as error:
        print(error, file=sys.stderr)
        return 1
    except (KeyboardInterrupt, BrokenPipeError):
        return 130


if __name__ == "__main__":
    sys.exit(main())
