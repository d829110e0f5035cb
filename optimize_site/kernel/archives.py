"""ZIP archives: packed alike from the same folder on every machine, and looked through before a byte is kept."""

import struct
import tempfile
import unicodedata
import zipfile
import zlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from stat import S_IFDIR, S_IFMT, S_IFREG, S_ISDIR, S_ISREG
from typing import IO

from optimize_site.kernel.conf import home
from optimize_site.kernel.errors import InvalidInput, Problem, Refused, TooLarge

CHUNK = 1 << 20
DATE = (1980, 1, 1, 0, 0, 0)
END, END_SIZE, MAX_COMMENT = b"PK\x05\x06", 22, 0xFFFF
ZIP64_LOCATOR, ZIP64_LOCATOR_SIZE = b"PK\x06\x07", 20
MAX_DIRECTORY_BYTES = 8 << 20
MAX_PATH = 240
SHOWN_PROBLEMS = 20
ENCRYPTED = 0x1
READABLE = {zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED}
BROKEN = (zipfile.BadZipFile, zlib.error, NotImplementedError, RuntimeError, ValueError, EOFError, struct.error)
OTHER_FORMS = ((b"\x1f\x8b", "a gzip file"), (b"BZh", "a bzip2 file"), (b"\xfd7zXZ", "an xz file"),
               (b"7z\xbc\xaf", "a 7-Zip archive"))
TAR_MARK, TAR_MARK_AT = b"ustar", 257


class ArchiveRefused(Refused):
    """The archive's structure, never what its files mean."""

    code = "archive_refused"


@dataclass(frozen=True)
class Limits:
    """How large an archive may be, how many entries it may hold, and what they may come to unpacked."""

    max_bytes: int
    max_unpacked_bytes: int
    max_entries: int = 10_000


@dataclass(frozen=True)
class Entry:
    """A file or folder of an archive; `path` has forward slashes and no slash at either end."""

    path: str
    size_bytes: int
    is_folder: bool


@contextmanager
def received(chunks: Iterable[bytes], max_bytes: int) -> Iterator[Path]:
    """The bytes as a scratch file, gone afterwards. Raises TooLarge as soon as they are more than `max_bytes`."""
    scratch = home() / "scratch"
    scratch.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile(dir=scratch, prefix="archive-") as file:
        for chunk in limited(chunks, max_bytes):
            file.write(chunk)
        file.flush()
        yield Path(file.name)


def limited(chunks: Iterable[bytes], max_bytes: int) -> Iterator[bytes]:
    """The same chunks. Raises TooLarge at the first one beyond `max_bytes` in all."""
    size = 0
    for chunk in chunks:
        size += len(chunk)
        if size > max_bytes:
            raise TooLarge(f"The archive is longer than {max_bytes:,} bytes, which is what this box takes.",
                           hint="Leave out what the work does not read.")
        yield chunk


def examine_archive(path: Path, limits: Limits) -> list[Entry]:
    """What a ZIP holds, every file read through once against its checksum. Nothing is unpacked.

    Raises ArchiveRefused: no ZIP, over the limits, encrypted, broken, or an entry that is no plain file or folder with
    a relative path of its own.
    """
    with path.open("rb") as file:
        _check_ends(file, limits)
        try:
            with zipfile.ZipFile(file) as archive:
                infos = archive.infolist()
                if any(info.header_offset < 0 for info in infos):
                    raise zipfile.BadZipFile("its beginning is missing")
                _check_beginning(infos)
                _check_entries(infos, limits)
                for info in infos:
                    _read_through(archive, info)
        except BROKEN as error:
            raise ArchiveRefused(f"The archive is broken: {error}.", hint="Make it again.") from error
    return [_entry(info) for info in infos]


def _check_ends(file: IO[bytes], limits: Limits) -> None:
    """The directory's own words about its size, before anything reads it into memory."""
    size = file.seek(0, 2)
    if size > limits.max_bytes:
        raise ArchiveRefused(f"The archive has {size:,} bytes; this box takes at most {limits.max_bytes:,}.")
    file.seek(0)
    head = file.read(TAR_MARK_AT + len(TAR_MARK))
    file.seek(max(0, size - END_SIZE - MAX_COMMENT - ZIP64_LOCATOR_SIZE))
    tail = file.read()
    at = tail.rfind(END)
    if at < 0 or len(tail) - at < END_SIZE:
        raise ArchiveRefused(f"The file is {_other_form(head)}, not a ZIP archive.", hint="Send a ZIP or a folder.")
    entries, directory, comment = struct.unpack("<10xHL4xH", tail[at:at + END_SIZE])
    if comment != len(tail) - at - END_SIZE:
        raise ArchiveRefused("The archive goes on after its end.", hint="Make it again.")
    if tail[max(0, at - ZIP64_LOCATOR_SIZE):at].startswith(ZIP64_LOCATOR) or directory == 0xFFFFFFFF:
        raise ArchiveRefused("The archive is in the ZIP64 form, which is for more files than this box takes.")
    if entries > limits.max_entries or directory > MAX_DIRECTORY_BYTES:
        raise ArchiveRefused(f"The archive lists {entries:,} entries in {directory:,} bytes; this box takes at most "
                             f"{limits.max_entries:,} entries in {MAX_DIRECTORY_BYTES:,}.")
    file.seek(0)


def _check_beginning(infos: list[zipfile.ZipInfo]) -> None:
    """What stands in front of the first file would be kept and read by nobody, such as another archive or a program."""
    first = min((info.header_offset for info in infos), default=0)
    if first:
        raise ArchiveRefused(f"The archive has {first:,} bytes in front of its first file.",
                             hint="Make it again, without what was put in front of it.")


def _other_form(head: bytes) -> str:
    if head[TAR_MARK_AT:] == TAR_MARK:
        return "a tar archive"
    if not head:
        return "empty"
    return next((name for mark, name in OTHER_FORMS if head.startswith(mark)), "something else")


def _check_entries(infos: list[zipfile.ZipInfo], limits: Limits) -> None:
    if len(infos) > limits.max_entries:
        raise ArchiveRefused(f"The archive holds {len(infos):,} entries; this box takes {limits.max_entries:,}.")
    unpacked = sum(info.file_size for info in infos)
    if unpacked > limits.max_unpacked_bytes:
        raise ArchiveRefused(f"The archive would unpack to {unpacked:,} bytes; this box takes at most "
                             f"{limits.max_unpacked_bytes:,}.")
    problems = list(_problems(infos))
    if problems:
        more = f" There are {len(problems) - SHOWN_PROBLEMS} more." if len(problems) > SHOWN_PROBLEMS else ""
        raise ArchiveRefused(f"{len(problems)} entries of the archive cannot be kept: {problems[0].message}{more}",
                             problems=problems[:SHOWN_PROBLEMS])
    if all(info.is_dir() for info in infos):
        raise ArchiveRefused("The archive holds no file.")


def _problems(infos: list[zipfile.ZipInfo]) -> Iterator[Problem]:
    held: dict[str, str] = {}
    folders: set[str] = set()
    for info in infos:
        name = info.orig_filename
        wrong = _wrong_with(info, name)
        if wrong:
            yield Problem(ascii(name[:MAX_PATH]), "archive_entry_refused", wrong)
            continue
        key = _alike(name.rstrip("/"))
        if key in held and not (info.is_dir() and key in folders):
            yield Problem(name, "archive_entry_refused", f"{name} and {held[key]} are the same name on some machines.")
        held[key] = name
        if info.is_dir():
            folders.add(key)
    yield from _files_as_folders(held, folders)


def _files_as_folders(held: dict[str, str], folders: set[str]) -> Iterator[Problem]:
    for key, name in held.items():
        above = key.rpartition("/")[0]
        while above:
            if above in held and above not in folders:
                yield Problem(name, "archive_entry_refused", f"{held[above]} is a file, and {name} lies inside it.")
                break
            above = above.rpartition("/")[0]


def _wrong_with(info: zipfile.ZipInfo, name: str) -> str:
    """Why an entry cannot be kept; empty where it can."""
    kind = S_IFMT(info.external_attr >> 16)
    if kind not in (0, S_IFREG, S_IFDIR):
        return f"{name!a} is a link or a device, not a file."
    if info.flag_bits & ENCRYPTED:
        return f"{name!a} is encrypted."
    if info.compress_type not in READABLE:
        return f"{name!a} is packed by a method this box does not read; use deflate or none."
    return wrong_path(name.removesuffix("/"))


def wrong_path(name: str) -> str:
    """Why a path cannot be an object's name; empty where it can: relative, plain parts, no control character."""
    parts = name.split("/")
    if not name or len(name.encode("utf-8", "surrogatepass")) > MAX_PATH:
        return f"{name[:40]!a} is empty or longer than {MAX_PATH} bytes."
    if any(unicodedata.category(character) in {"Cc", "Cf", "Cs"} for character in name):
        return f"{name!a} holds a character that cannot be seen."
    if "\\" in name or parts[0].endswith(":") or (len(parts[0]) > 1 and parts[0][1] == ":"):
        return f"{name!a} is a path of another system; write it with forward slashes."
    if any(part in {"", ".", ".."} for part in parts):
        return f"{name!a} leaves the archive or is written in two ways."
    return ""


def _alike(name: str) -> str:
    """The name as the least careful file system would keep it."""
    return unicodedata.normalize("NFC", name).casefold()


def _read_through(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> None:
    """Raises zipfile.BadZipFile where the bytes are not those of the checksum."""
    found = 0
    with archive.open(info) as file:
        while chunk := file.read(CHUNK):
            found += len(chunk)
    if found != info.file_size:
        raise zipfile.BadZipFile(f"{info.filename!a} ends after {found} of {info.file_size} bytes")


def list_archive(path: Path) -> list[Entry]:
    """What an archive holds that was examined, by its directory alone."""
    with zipfile.ZipFile(path) as archive:
        return [_entry(info) for info in archive.infolist()]


def _entry(info: zipfile.ZipInfo) -> Entry:
    return Entry(info.filename.rstrip("/"), info.file_size, info.is_dir())


def read_entry(path: Path, name: str) -> Iterator[bytes]:
    """The bytes of one file of an archive that was examined. Raises KeyError."""
    with zipfile.ZipFile(path) as archive, archive.open(name) as file:
        while chunk := file.read(CHUNK):
            yield chunk


# Packing -------------------------------------------------------------------------------------------------------------


def pack_folder(folder: Path, target: IO[bytes]) -> list[str]:
    """Write a folder into `target` as a ZIP, hidden and empty ones included; gives the paths in it.

    The same files give the same bytes everywhere: paths in order, one date, one mode, nothing compressed. Raises
    InvalidInput for a link, a device, or a name that no archive keeps.
    """
    found = sorted(_listed(folder, folder))
    if not any(not is_folder for _, is_folder in found):
        raise InvalidInput(f"{folder} holds no file.", code="nothing_to_pack")
    with zipfile.ZipFile(target, "w", zipfile.ZIP_STORED, allowZip64=False) as archive:
        for name, is_folder in found:
            _add(archive, folder / name, name, is_folder)
    return [name for name, _ in found]


def pack_files(files: Mapping[str, Path], target: IO[bytes]) -> None:
    """Write files into `target` as a ZIP under the names given, in that order; the same files give the same bytes.

    Raises zipfile.LargeZipFile for what only the ZIP64 form could hold.
    """
    with zipfile.ZipFile(target, "w", zipfile.ZIP_STORED, allowZip64=False) as archive:
        for name, path in files.items():
            _add(archive, path, name, is_folder=False)


def _listed(folder: Path, root: Path) -> Iterator[tuple[str, bool]]:
    for path in folder.iterdir():
        name = path.relative_to(root).as_posix()
        mode = path.lstat().st_mode
        if not (S_ISDIR(mode) or S_ISREG(mode)):
            raise InvalidInput(f"{path} is a link or a device; only files and folders are packed.",
                               code="cannot_be_packed", hint="Put the file itself in its place.")
        if wrong := wrong_path(name):
            raise InvalidInput(wrong, code="cannot_be_packed", hint="Give it another name.")
        yield name, S_ISDIR(mode)
        if S_ISDIR(mode):
            yield from _listed(path, root)


def _add(archive: zipfile.ZipFile, path: Path, name: str, is_folder: bool) -> None:
    info = zipfile.ZipInfo(f"{name}/" if is_folder else name, DATE)
    info.create_system = 3
    info.external_attr = (S_IFDIR | 0o755) << 16 | 0x10 if is_folder else (S_IFREG | 0o644) << 16
    if is_folder:
        archive.writestr(info, b"")
        return
    info.file_size = path.stat().st_size
    with path.open("rb") as source, archive.open(info, "w") as entry:
        while chunk := source.read(CHUNK):
            entry.write(chunk)
