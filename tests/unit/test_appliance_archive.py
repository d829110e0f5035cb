"""Backup files: whole or refused, and never a way out of the state folder."""

import io
import json
import tarfile
from pathlib import Path

import pytest

from optimize_site.appliance.archive import DATABASE, ArchiveWriter, extract, is_safe_name, verify
from optimize_site.appliance.backup import make_backup, state_entries
from optimize_site.appliance.errors import ApplianceError
from optimize_site.appliance.places import Places


@pytest.fixture
def backup(tmp_path: Path) -> Path:
    source = tmp_path / "source"
    source.mkdir()
    (source / "dump").write_bytes(b"rows")
    (source / "blob").write_bytes(b"weights" * 1000)
    path = tmp_path / "it.tar"
    with path.open("wb") as stream:
        writer = ArchiveWriter(stream)
        writer.add(source / "dump", DATABASE)
        writer.add(source / "blob", "state/blobs/ab/abcd")
        writer.add(source / "gone", "state/gone")
        writer.finish(postgres=18)
    return path


def test_what_was_written_comes_back(backup: Path, tmp_path: Path) -> None:
    manifest = verify(backup)
    assert manifest["postgres"] == 18
    assert sorted(manifest["files"]) == [DATABASE, "state/blobs/ab/abcd"]
    extract(backup, tmp_path / "home", tmp_path / "dump")
    assert (tmp_path / "home/blobs/ab/abcd").read_bytes() == b"weights" * 1000
    assert (tmp_path / "dump").read_bytes() == b"rows"


def test_a_changed_byte_is_found(backup: Path) -> None:
    body = bytearray(backup.read_bytes())
    body[body.index(b"weights")] ^= 1
    backup.write_bytes(body)
    with pytest.raises(ApplianceError, match=r"damaged: 1 of its files .* state/blobs/ab/abcd"):
        verify(backup)


def test_a_copy_that_was_cut_short_is_refused(backup: Path) -> None:
    backup.write_bytes(backup.read_bytes()[:6000])
    with pytest.raises(ApplianceError, match=r"cannot be read|no whole backup"):
        verify(backup)


def test_what_is_no_backup_is_refused(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("hello")
    for name in ("text", "none"):
        with pytest.raises(ApplianceError):
            verify(tmp_path / name)


@pytest.mark.parametrize(
    "name", ["../evil", "/etc/passwd", "state/../../evil", "state/", "other", "state//etc/../../x"]
)
def test_a_name_that_leads_elsewhere_is_refused(name: str, tmp_path: Path) -> None:
    assert not is_safe_name(name)
    path = tmp_path / "evil.tar"
    with tarfile.open(path, "w") as tar:
        member = tarfile.TarInfo(name)
        member.size = 2
        tar.addfile(member, io.BytesIO(b"hi"))
    with pytest.raises(ApplianceError, match="no backup of Optimize"):
        verify(path)


def test_a_link_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "link.tar"
    with tarfile.open(path, "w") as tar:
        member = tarfile.TarInfo("state/link")
        member.type, member.linkname = tarfile.SYMTYPE, "/etc/passwd"
        tar.addfile(member)
    with pytest.raises(ApplianceError, match="state/link"):
        verify(path)


def test_a_backup_without_a_database_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "empty.tar"
    with path.open("wb") as stream:
        ArchiveWriter(stream).finish()
    with pytest.raises(ApplianceError, match="no database"):
        verify(path)


def test_what_a_start_makes_again_is_left_out(tmp_path: Path) -> None:
    for name in ("run", "logs", "postgres", "static", "blobs", "catalogs", "replaced-1", ".hidden"):
        (tmp_path / name).mkdir()
    (tmp_path / "settings.toml").write_text("")
    assert [path.name for path in state_entries(tmp_path)] == ["blobs", "catalogs", "settings.toml"]


def test_the_manifest_is_the_last_member(backup: Path) -> None:
    with tarfile.open(backup) as tar:
        last = tar.getmembers()[-1]
        assert last.name == "MANIFEST.json"
        assert json.loads(tar.extractfile(last).read())["version"] == 1


def test_a_backup_into_a_folder_that_is_missing_is_refused_in_a_sentence(tmp_path: Path) -> None:
    places = Places(tmp_path / "home")
    places.create()
    (places.home / "secret_key").write_text("x")
    with pytest.raises(ApplianceError, match=f"There is no folder {tmp_path}/no/such to write state.tar into"):
        make_backup(places, tmp_path / "no/such/state.tar")
