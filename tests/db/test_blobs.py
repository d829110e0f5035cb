"""Bytes kept by their hash: whole or not at all."""

import hashlib

import pytest

from optimize_site.kernel.blobs import blob_path, hold, open_blob, put_file, put_stream, store
from optimize_site.kernel.conf import home
from optimize_site.kernel.models import Blob

pytestmark = pytest.mark.django_db


def scratch():
    return list((home() / "scratch").iterdir())


def test_the_same_bytes_are_one_blob_and_leave_nothing_behind(tmp_path):
    (tmp_path / "file").write_bytes(b"abcd")
    first, again = put_stream([b"ab", b"cd"]), put_file(tmp_path / "file")
    assert first == again
    assert (first.sha256, first.size_bytes) == (hashlib.sha256(b"abcd").hexdigest(), 4)
    with open_blob(first.sha256) as file:
        assert file.read() == b"abcd"
    assert Blob.objects.count() == 1
    assert scratch() == []
    assert (tmp_path / "file").read_bytes() == b"abcd"


def test_a_stream_that_breaks_off_leaves_nothing_behind():
    def broken():
        yield b"ab"
        raise OSError(28, "No space left on device")

    with pytest.raises(OSError, match="No space"):
        put_stream(broken())
    assert scratch() == []
    assert not Blob.objects.exists()


def test_half_a_blob_is_replaced_by_the_whole():
    sha256 = hashlib.sha256(b"whole blob").hexdigest()
    blob_path(sha256).parent.mkdir(parents=True, exist_ok=True)
    blob_path(sha256).write_bytes(b"whole")
    put_stream([b"whole blob"])
    assert blob_path(sha256).read_bytes() == b"whole blob"


def test_two_writers_of_the_same_bytes_keep_one_file(monkeypatch):
    sha256 = hashlib.sha256(b"twice").hexdigest()
    put_stream([b"twice"])
    really, not_yet = store().exists, iter([False, False])
    monkeypatch.setattr(store(), "exists", lambda name: next(not_yet, really(name)))
    put_stream([b"twice"])
    assert [path.name for path in blob_path(sha256).parent.iterdir()] == [sha256]
    assert scratch() == []


def test_bytes_that_do_not_pass_the_check_are_not_kept():
    def refuse(path):
        assert path.read_bytes() == b"seen whole"
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        put_stream([b"seen ", b"whole"], check=refuse)
    assert not Blob.objects.exists()
    assert scratch() == []


def test_holding_tells_which_bytes_are_here_and_makes_them_fresh():
    here = put_stream([b"held"])
    gone = put_stream([b"lost its file"])
    blob_path(gone.sha256).unlink()
    assert hold([here.sha256, gone.sha256, "0" * 64]) == {here.sha256}
    before = here.held_at
    here.refresh_from_db()
    assert here.held_at > before


@pytest.mark.requirement("R313")
def test_a_kept_file_can_be_read_by_every_account_of_the_machine():
    assert blob_path(put_stream([b"readable"]).sha256).stat().st_mode & 0o444 == 0o444
