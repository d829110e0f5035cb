"""Gunicorn's settings. The supervisor hands over a listening socket, so no request is refused during a restart."""

import os
import signal
from typing import Any

from optimize_site.appliance.announce import announce_ready
from optimize_site.appliance.processes import dies_with_this_parent

worker_class = "optimize_site.appliance.web_worker.QuietWorker"
workers = int(os.environ.get("OPTIMIZE_WEB_WORKERS", "1"))
preload_app = True  # the master's copy of the code is shared with its workers
timeout = 60
# Followers keep their streams open; they reconnect after a restart.
graceful_timeout = 3
control_socket_disable = True
logconfig_dict = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {"json": {"()": "optimize_site.kernel.logs.JsonFormatter"}},
    "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": "json"}},
    "root": {"handlers": ["stderr"], "level": "INFO"},
    "loggers": {"gunicorn.error": {"handlers": ["stderr"], "level": "INFO", "propagate": False}},
}


def post_fork(server: Any, worker: Any) -> None:
    """A worker whose master was killed must not keep the socket."""
    dies_with_this_parent(signal.SIGKILL)


def post_worker_init(worker: Any) -> None:
    """The application is loaded."""
    announce_ready()
