"""What can happen to a worker's hold on its work."""

from optimize_site.kernel.errors import Conflict


class LeaseLost(Conflict):
    """Another worker was given this work; this one must write nothing more."""

    code = "lease_lost"
