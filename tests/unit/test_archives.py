"""ZIP archives: what is refused before anything is kept, and packing that gives the same bytes everywhere."""

import io
import os
import stat
import struct
import tarfile
import zipfile

import pytest

from optimize_site.kernel.archives import ArchiveRefused, Limits, examine_archive, pack_folder
from optimize_site.kernel.errors import InvalidInput

LIMITS = Limits(max_bytes=1 << 20, max_unpacked_bytes=4 << 20, max_entries=50)


def zipped(*entries, compression=zipfile.ZIP_STORED):
    """The bytes of a ZIP of (name or ZipInfo, data) pairs, written as they are."""
    sink = io.BytesIO()
    with zipfile.ZipFile(sink, "w", compression) as archive:
        for name, data in entries:
            info = name if isinstance(name, zipfile.ZipInfo) else zipfile.ZipInfo(name)
            info.compress_type = compression
            archive.writestr(info, data)
    return sink.getvalue()


def of_kind(name, kind):
    info = zipfile.ZipInfo(name)
    info.external_attr = (kind | 0o777) << 16
    return info


def examine(tmp_path, data, limits=LIMITS):
    path = tmp_path / "sent.zip"
    path.write_bytes(data)
    return examine_archive(path, limits)


def test_an_archive_tells_its_files_and_folders(tmp_path):
    found = examine(tmp_path, zipped(("scoring/", b""), ("scoring/reward.py", b"x = 1\n"), (".hidden", b"")))
    assert [(entry.path, entry.size_bytes, entry.is_folder) for entry in found] == [
        ("scoring", 0, True), ("scoring/reward.py", 6, False), (".hidden", 0, False)]


@pytest.mark.parametrize("name", ["../x", "a/../x", "..", "/etc/x", "a//b", "./a", "C:\\x", "c:x", "\\\\host\\x",
                                  "..\\x", "a\nb", "a\u202eb", "x" * 300])
def test_a_path_that_leaves_the_archive_or_deceives_is_refused(tmp_path, name):
    with pytest.raises(ArchiveRefused) as refused:
        examine(tmp_path, zipped((name, b"x")))
    assert refused.value.problems[0].code == "archive_entry_refused"


@pytest.mark.parametrize("kind", [stat.S_IFLNK, stat.S_IFCHR, stat.S_IFBLK, stat.S_IFIFO, stat.S_IFSOCK])
def test_links_and_devices_are_refused(tmp_path, kind):
    with pytest.raises(ArchiveRefused, match="a link or a device"):
        examine(tmp_path, zipped((of_kind("x", kind), b"/etc/passwd")))


@pytest.mark.parametrize("names", [("a.py", "A.py"), ("é", "e\u0301"), ("a", "a/b")])
def test_names_that_some_machine_takes_for_one_are_refused(tmp_path, names):
    with pytest.raises(ArchiveRefused, match=r"same name|lies inside"):
        examine(tmp_path, zipped(*[(name, b"x") for name in names]))


def test_an_encrypted_entry_is_refused(tmp_path):
    data = bytearray(zipped(("a", b"xyz")))
    data[6] |= 1
    data[data.index(b"PK\x01\x02") + 8] |= 1
    with pytest.raises(ArchiveRefused, match="encrypted"):
        examine(tmp_path, bytes(data))


def test_bytes_that_are_not_those_of_the_checksum_are_refused(tmp_path):
    data = zipped(("a", b"payload"))
    with pytest.raises(ArchiveRefused, match="broken"):
        examine(tmp_path, data.replace(b"payload", b"pAyload", 1))


def test_a_bomb_is_refused_before_it_is_unpacked(tmp_path):
    bomb = zipped(("zeros", bytes(8 << 20)), compression=zipfile.ZIP_DEFLATED)
    assert len(bomb) < 1 << 14
    with pytest.raises(ArchiveRefused, match="would unpack to 8,388,608 bytes"):
        examine(tmp_path, bomb)


def test_an_entry_that_lies_about_its_size_is_refused(tmp_path):
    data = bytearray(zipped(("zeros", bytes(4096)), compression=zipfile.ZIP_DEFLATED))
    at = data.index(b"PK\x01\x02")
    data[at + 24:at + 28] = struct.pack("<L", 8192)
    with pytest.raises(ArchiveRefused, match="broken"):
        examine(tmp_path, bytes(data))


def test_too_many_entries_are_refused_from_the_directorys_own_count(tmp_path):
    data = bytearray(zipped(("a", b"x")))
    data[-12:-10] = struct.pack("<H", 60_000)
    with pytest.raises(ArchiveRefused, match="60,000 entries"):
        examine(tmp_path, bytes(data))
    with pytest.raises(ArchiveRefused, match="51 entries"):
        examine(tmp_path, zipped(*[(f"{number}/", b"") for number in range(51)]))


def test_a_larger_archive_than_the_box_takes_is_refused(tmp_path):
    with pytest.raises(ArchiveRefused, match=r"at most 100\."):
        examine(tmp_path, zipped(("a", bytes(200))), Limits(max_bytes=100, max_unpacked_bytes=1000))


def test_what_is_no_zip_is_told_by_its_name(tmp_path):
    sink = io.BytesIO()
    with tarfile.open(fileobj=sink, mode="w") as archive:
        archive.addfile(tarfile.TarInfo("../x"))
    for data, name in ((sink.getvalue(), "a tar archive"), (b"\x1f\x8b" + bytes(9), "a gzip file"), (b"", "empty"),
                       (b"hello", "something else")):
        with pytest.raises(ArchiveRefused, match=name):
            examine(tmp_path, data)


def test_a_nested_archive_is_a_file_like_another(tmp_path):
    inner = zipped(("../x", b"x"))
    assert [entry.path for entry in examine(tmp_path, zipped(("inner.zip", inner)))] == ["inner.zip"]


def test_a_cut_archive_is_refused_wherever_it_is_cut(tmp_path):
    data = zipped(("a", b"xyz"), ("b", b"x" * 300))
    for end in range(0, len(data) - 1, 7):
        with pytest.raises(ArchiveRefused):
            examine(tmp_path, data[:end])


@pytest.mark.parametrize("front", [b"#!/bin/sh\nexit\n", zipped(("b", b"y"))], ids=["a program", "another archive"])
def test_bytes_in_front_of_an_archive_are_refused_by_their_number(tmp_path, front):
    with pytest.raises(ArchiveRefused, match=f"has {len(front)} bytes in front of its first file"):
        examine(tmp_path, front + zipped(("a", b"x")))


def packed(folder):
    sink = io.BytesIO()
    pack_folder(folder, sink)
    return sink.getvalue()


def test_the_same_files_pack_to_the_same_bytes_whenever_and_however_they_were_made(tmp_path):
    for place, names in (("one", ["b.py", "a/c.py", ".hidden"]), ("two", [".hidden", "a/c.py", "b.py"])):
        for name in names:
            file = tmp_path / place / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(name)
        (tmp_path / place / "empty").mkdir()
    os.utime(tmp_path / "two" / "b.py", (1, 1))
    (tmp_path / "two" / "b.py").chmod(0o600)
    assert packed(tmp_path / "one") == packed(tmp_path / "two")
    found = examine(tmp_path, packed(tmp_path / "one"))
    assert [entry.path for entry in found] == [".hidden", "a", "a/c.py", "b.py", "empty"]


def test_cache_files_are_packed_too_so_they_change_the_bytes(tmp_path):
    (tmp_path / "reward.py").write_text("x = 1")
    before = packed(tmp_path)
    (tmp_path / "__pycache__").mkdir()
    (tmp_path / "__pycache__" / "reward.pyc").write_bytes(b"cache")
    assert packed(tmp_path) != before


def test_links_and_empty_folders_are_not_packed(tmp_path):
    with pytest.raises(InvalidInput, match="holds no file"):
        packed(tmp_path)
    (tmp_path / "real").write_text("x")
    (tmp_path / "link").symlink_to("real")
    with pytest.raises(InvalidInput, match="a link or a device"):
        packed(tmp_path)
