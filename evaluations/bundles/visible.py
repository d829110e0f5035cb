"""What a confined process can see of the machine: its interpreter, and the folders that it reads."""

import os
import sys
import sysconfig
from pathlib import Path

LIBRARIES = ("/lib", "/lib64", "/usr/lib", "/usr/lib64", "/usr/local/lib", "/etc/ld.so.cache",
             "/usr/share/zoneinfo")


def visible_paths(folder: str) -> list[str]:
    """What can be read inside: Python's standard library, the libraries of the system, the bundle."""
    standard = [sysconfig.get_path("stdlib"), sysconfig.get_path("platstdlib"), sysconfig.get_config_var("LIBDIR")]
    real = [os.path.realpath(path) for path in standard if path]
    paths = [path for path in dict.fromkeys([*LIBRARIES, *real, folder]) if Path(path).exists()]
    return [path for path in paths if not any(path.startswith(f"{other}/") for other in paths)]


def executable() -> str:
    """The interpreter itself, not a link to it whose folder may not be visible."""
    return os.path.realpath(sys.executable)
