"""A registered adapter as jobs read one: a folder in which its blobs stand under their names."""

from pathlib import Path

from optimize_site.kernel.blobs import blob_path
from registry.models import Version


def lay_out_adapter(version: Version, folder: Path) -> Path:
    """Put the adapter's files into a folder, as links to what the box keeps. Raises FileNotFoundError."""
    folder.mkdir(parents=True, exist_ok=True)
    for entry in version.objects_listing:
        _link(blob_path(entry["sha256"]), folder / Path(entry["path"]).name)
    return folder


def _link(blob: Path, name: Path) -> None:
    if not blob.is_file():
        raise FileNotFoundError(f"the adapter's file {name.name} is not in the state folder any more")
    name.unlink(missing_ok=True)
    name.symlink_to(blob)
