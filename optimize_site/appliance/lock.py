"""One supervisor per state folder: a lock that ends with its process, and a note saying who holds it."""

import fcntl
import os

from optimize_site.appliance.documents import read_document, write_document
from optimize_site.appliance.errors import AlreadyUp
from optimize_site.appliance.places import Places
from optimize_site.processes import Identity, start_time


class HomeLock:
    """The lock on one state folder. It is released when the process that holds it ends."""

    def __init__(self, places: Places) -> None:
        self._places = places
        self._descriptor = -1

    def acquire(self) -> None:
        """Take the lock or raise AlreadyUp."""
        self._descriptor = os.open(self._places.lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(self._descriptor)
            raise _already_up(self._places) from None

    def sign(self) -> None:
        """Write down that this process holds the lock."""
        pid = os.getpid()
        write_document(self._places.supervisor, {"pid": pid, "started": start_time(pid)})

    def release(self) -> None:
        """Give the lock back."""
        self._places.supervisor.unlink(missing_ok=True)
        os.close(self._descriptor)


def supervisor_of(places: Places) -> Identity | None:
    """The supervisor that runs on this state folder, or None."""
    note = read_document(places.supervisor)
    if not {"pid", "started"} <= note.keys():
        return None
    identity = Identity(note["pid"], note["started"])
    return identity if identity.is_alive() else None


def _already_up(places: Places) -> AlreadyUp:
    holder = supervisor_of(places)
    who = f"process {holder.pid}" if holder else "another process"
    return AlreadyUp(
        f"The box in {places.home} is already up, or something works on its state ({who}).",
        hint="`./optimize down` stops it; OPTIMIZE_HOME names another state folder.",
    )
