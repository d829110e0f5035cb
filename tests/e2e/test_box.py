"""The box as a whole: it comes up, says how it is, and goes down without a trace. How it stays up whoever is killed is
tested while it trains."""

import json
import os
import pwd
import re
import shutil
import socket
import stat
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpu_worker.launch import start_zygote, zygote_process
from optimize_site.appliance.places import CHECKOUT
from tests.e2e.conftest import Box

SERVICES = ["postgres", "valkey", "web", "control", "device/cpu", "device/host"]


def test_the_first_start_tells_the_password_once_and_keeps_it_out_of_the_logs(box: Box) -> None:
    assert re.fullmatch(r"\S{12,}", box.password)
    logged = "".join(path.read_text(errors="replace") for path in (box.home / "logs").glob("*.log"))
    assert box.password not in logged


def test_every_service_is_ready_and_the_web_answers(box: Box) -> None:
    assert [service["name"] for service in box.status()["services"]] == SERVICES
    assert box.is_ready()


def test_the_web_is_forked_like_the_workers_and_alone_of_them_holds_its_socket(box: Box) -> None:
    """From what the nursery has loaded already, so that one that was killed is there again within a second."""
    port = int(box.url.rpartition(":")[2])
    listeners = {row.split()[9] for row in Path("/proc/net/tcp").read_text().splitlines()[1:]
                 if row.split()[1].endswith(f":{port:04X}") and row.split()[3] == "0A"}  # fmt: skip
    holders = {name for name in SERVICES if listeners & _sockets_of(box.process(name).pid)}
    assert len(listeners) == 1 and holders == {"web"}
    assert [name for name in SERVICES if _is_a_fork(box.process(name).pid)] == SERVICES[2:]


def _is_a_fork(pid: int) -> bool:
    """Whether a process runs what its parent ran, by the kernel's flag for one that started no program."""
    flags = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[6]
    return bool(int(flags) & 0x40)


def _sockets_of(pid: int) -> set[str]:
    """The inodes of the sockets that a process holds, where it may be looked at."""
    if not os.access(f"/proc/{pid}/fd", os.R_OK):
        return set()
    found = (re.fullmatch(r"socket:\[(\d+)\]", str(link.readlink())) for link in Path(f"/proc/{pid}/fd").iterdir())
    return {socket[1] for socket in found if socket}


def test_the_state_is_closed_to_other_users(box: Box) -> None:
    assert not stat.S_IMODE(box.home.stat().st_mode) & 0o007
    for name in ("run/services.json", "secret_key", "status.json"):
        assert stat.S_IMODE((box.home / name).stat().st_mode) == 0o600


def test_a_second_up_is_refused_and_disturbs_nothing(box: Box) -> None:
    done = box.run("up")
    assert done.returncode == 1
    assert "is already up" in done.stdout + done.stderr
    assert "./optimize down" in done.stdout + done.stderr
    assert box.is_ready()


def test_status_tells_how_the_services_are(box: Box) -> None:
    document = json.loads(box.run("status", "-o", "json").stdout)
    assert (document["state"], document["url"]) == ("ready", box.url)
    assert [(service["name"], service["state"]) for service in document["services"]] == [(n, "ready") for n in SERVICES]
    assert "device/cpu" in box.run("status").stdout


def test_logs_show_what_a_service_said(box: Box) -> None:
    assert "ready to accept connections" in box.run("logs", "postgres").stdout
    unknown = box.run("logs", "nothing")
    assert unknown.returncode == 1
    assert "web" in unknown.stderr


def test_down_stops_everything_and_says_so_when_there_is_nothing_to_stop(box: Box) -> None:
    everything = [box.process(name) for name in ["supervisor", *SERVICES]]
    start_zygote(box.home / "run")
    prepared = zygote_process(box.home / "run")
    assert prepared is not None and prepared.is_alive()
    everything.append(prepared)
    box.down()
    assert not any(process.is_alive() for process in everything)
    assert json.loads(box.run("status", "-o", "json").stdout)["state"] == "down"
    again = box.run("down")
    assert (again.returncode, "is not up" in again.stdout) == (0, True)
    box.up()


def test_a_backup_restores_the_whole_state_into_another_folder(box: Box, scratch_home: Path, tmp_path: Path) -> None:
    (box.home / "blobs/ab").mkdir(parents=True, exist_ok=True)
    (box.home / "blobs/ab/abcd").write_text("weights")
    file = tmp_path / "box.tar"
    assert box.run("backup", str(file)).returncode == 0
    assert stat.S_IMODE(file.stat().st_mode) == 0o600

    other = Box(scratch_home.with_name("restored"))
    assert other.run("restore", str(file)).returncode == 0
    assert (other.home / "blobs/ab/abcd").read_text() == "weights"
    refused = other.run("restore", str(file))
    assert (refused.returncode, "--force" in refused.stderr) == (1, True)
    other.up()
    try:
        assert other.password == "", "the admin came with the backup"
        assert "admin" in other.run("users", "list").stdout
        assert "already up" in other.run("restore", str(file), "--force").stderr
    finally:
        other.down()


def test_a_busy_port_is_named_with_the_way_out(scratch_home: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        other = Box(scratch_home.with_name("busy"), OPTIMIZE_BIND=f"127.0.0.1:{port}")
        done = other.run("up", "--detach")
    assert done.returncode == 1
    assert f"127.0.0.1:{port}" in done.stdout
    assert "OPTIMIZE_BIND" in done.stdout


def test_a_server_that_does_not_answer_is_named_without_its_password(scratch_home: Path) -> None:
    url = "postgresql://me:secret@127.0.0.1:1/box"
    done = Box(scratch_home.with_name("outside"), DATABASE_URL=url).run("up", "--detach")
    assert done.returncode == 1
    assert "DATABASE_URL" in done.stdout
    assert "secret" not in done.stdout


def test_a_database_of_another_major_version_is_refused(scratch_home: Path) -> None:
    home = scratch_home.with_name("old")
    (home / "postgres").mkdir(parents=True, mode=0o700)
    (home / "postgres" / "PG_VERSION").write_text("9\n")
    done = Box(home).run("up", "--detach")
    assert done.returncode == 1
    assert "made by Postgres 9" in done.stdout
    assert "backup" in done.stdout


@pytest.fixture
def ordinary_home() -> Iterator[Path]:
    """A private folder of an ordinary user, with a path too long for a socket."""
    folder = Path(tempfile.mkdtemp(prefix="optimize-"))
    home = folder / ("deep" * 24)
    nobody = pwd.getpwnam("nobody")
    os.chown(folder, nobody.pw_uid, nobody.pw_gid)
    yield home
    shutil.rmtree(folder, ignore_errors=True)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_an_ordinary_user_can_run_a_box_in_a_deep_folder(ordinary_home: Path) -> None:
    reachable = subprocess.run(["test", "-x", CHECKOUT / ".venv/bin/python"], user="nobody", check=False).returncode
    if reachable:
        pytest.skip("the checkout lies where other users cannot read it")
    it = OrdinaryBox(ordinary_home, HOME=str(ordinary_home.parent))
    it.up()
    try:
        assert it.is_ready()
        assert it.process("postgres").pid
    finally:
        it.down()


class OrdinaryBox(Box):
    """A box that `nobody` runs."""

    def run(self, *words: str, timeout: float = 180, **options: object) -> subprocess.CompletedProcess[str]:
        """`./optimize WORDS …` as that user."""
        return super().run(*words, timeout=timeout, user="nobody", group="nogroup", extra_groups=[], **options)
