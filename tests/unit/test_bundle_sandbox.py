"""Bundles that attack: nothing is read, written, reached or left behind, and each deed costs its own score alone."""

import ctypes
import hashlib
import os
import socket
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from evaluations.bundles import scorer as scorers
from evaluations.bundles.inside import confine
from evaluations.bundles.inside.kernel import NoWall
from evaluations.bundles.process import Confined, NotStarted
from evaluations.bundles.scorer import BundleScorer
from evaluations.bundles.walls import Walls, find_walls
from evaluations.scoring.spec import Limits
from evaluations.scoring.terms import NotReady
from tests.bundles import answers, scoring

FORBIDDEN = {
    "opens_a_socket": "import socket; socket.create_connection(('127.0.0.1', PORT), 1)",
    "opens_a_socket_of_the_box": "import socket; socket.socket(socket.AF_UNIX).connect('PATH/live.sock')",
    "reads_the_server_s_environment": "open('/proc/PARENT/environ').read()",
    "reads_the_settings": "open('PATH/settings.toml').read()",
    "reads_the_accounts": "open('/etc/passwd').read()",
    "lists_another_folder": "import os; os.listdir('/var')",
    "writes_outside": "open('PATH/written', 'w').write('x')",
    "writes_inside": "open(__file__, 'a').write('x')",
    "makes_a_scratch_file": "import tempfile; tempfile.NamedTemporaryFile()",
    "links_to_the_outside": "import os; os.symlink('PATH/settings.toml', os.path.dirname(__file__) + '/link')",
    "forks": "import os; os.fork()",
    "starts_a_program": "import subprocess; subprocess.run(['/bin/true'])",
    "becomes_a_program": "import os; os.execv('/bin/true', ['true'])",
    "signals_the_server": "import os; os.kill(PARENT, 15)",
    "signals_by_a_file": "import fcntl, os; fcntl.fcntl(os.dup(0), fcntl.F_SETOWN, PARENT)",
    "traces_the_server": "import ctypes, os; c = ctypes.CDLL(None, use_errno=True); r = c.ptrace(16, PARENT, 0, 0); "
                         "assert r == 0, os.strerror(ctypes.get_errno())",
    "keeps_bytes_in_the_kernel": "import os; os.memfd_create('x')",
    "lifts_its_limits": "import resource; resource.setrlimit(resource.RLIMIT_AS, (1 << 40, 1 << 40))",
    "takes_64_gigabytes": "bytearray(64 << 30)",
    "makes_10000_threads": "import threading as t, time; [t.Thread(target=time.sleep, args=(9,), daemon=True).start() "
                           "for _ in range(10000)]",
}
WORTHLESS = {"no_number": "float('nan')", "infinity": "float('inf')", "nothing": "None", "a_text": "'1'", "much": "1.5",
             "little": "-0.1", "huge": "10 ** 4000", "several": "[1]", "a_thing": "object()",
             "no_score": "{'value': 1}", "a_text_in_it": "{'score': '1'}", "a_liar": "Liar()"}
HEAD = """
class Liar(float):
    def __le__(self, other): return True
    def __ge__(self, other): return True
    def __float__(self): return 7.0
def compute_score(solution_str):
    return globals()[solution_str]()
"""


def functions(bodies, word="", **names):
    """A module of one function a body."""
    text = HEAD
    for name, body in bodies.items():
        for mark, value in names.items():
            body = body.replace(mark, str(value))
        text += f"\ndef {name}():\n    {word}{body}\n    {'return 1' if not word else ''}\n"
    return text


@pytest.fixture
def live(tmp_path):
    """A service of the box that listens, on a port and on a path, and its settings."""
    (tmp_path / "settings.toml").write_text("secret = 1")
    with socket.create_server(("127.0.0.1", 0)) as port, socket.socket(socket.AF_UNIX) as path:
        path.bind(str(tmp_path / "live.sock"))
        path.listen()
        yield {"PORT": port.getsockname()[1], "PATH": tmp_path, "PARENT": os.getpid()}


def needs(*walls):
    """Skip where this machine does not give them: a container may forbid namespaces, a kernel lack Landlock."""
    missing = [f"{wall}: {reason}" for wall, reason in find_walls().missing.items() if wall in walls]
    if missing:
        pytest.skip("; ".join(missing))


SETS = [("namespaces", "landlock", "seccomp"), ("namespaces", "seccomp"), ("landlock", "seccomp")]


@pytest.mark.parametrize("walls", SETS, ids="+".join)
def test_no_wall_lets_a_deed_through(tmp_path, live, monkeypatch, walls):
    needs(*walls)
    monkeypatch.setattr(scorers, "find_walls", lambda: Walls(walls))
    monkeypatch.setenv("SECRET", "of the server")
    with scoring(tmp_path, functions(FORBIDDEN, **live)) as scorer:
        verdicts = dict(zip(FORBIDDEN, scorer.score(answers(*FORBIDDEN)), strict=True))
    done = {name for name, verdict in verdicts.items() if verdict.cause not in ("error", "crash")}
    assert done == set(), {name: verdicts[name] for name in done}
    assert verdicts["becomes_a_program"].cause == "error", "a program that ends at once looks like a crash"
    assert not (tmp_path / "written").exists()


def test_an_ordinary_user_gets_the_same_sandbox(tmp_path, live):
    """As a user without any power, which the namespace of a process that is root makes of it."""
    needs("namespaces")
    code = ("import sys; sys.path.insert(0, sys.argv[1]); from evaluations.bundles.walls import find_walls; "
            "import os; assert os.getuid() == 1000; print(find_walls().is_sandbox)")
    child = run_as_ordinary_user(code, str(Path(__file__).parents[2]))
    assert child == "True"


def test_it_has_no_secret_in_its_environment(tmp_path, monkeypatch):
    monkeypatch.setenv("SECRET_TOKEN", "hunter2")
    with scoring(tmp_path, "import os\ndef compute_score(solution_str):\n"
                           "    return {'score': 1, 'reason': repr(sorted(os.environ))}\n") as scorer:
        assert scorer.score(answers("x"))[0].explanation == "['LANG', 'PYTHONHASHSEED']"


def test_it_may_use_so_much_memory_and_processor_time_and_grow_no_file(tmp_path):
    with scoring(tmp_path, "import resource as r\ndef compute_score():\n"
                           "    names = (r.RLIMIT_AS, r.RLIMIT_CPU, r.RLIMIT_FSIZE, r.RLIMIT_NPROC)\n"
                           "    return {'score': 1, 'reason': ' '.join(str(r.getrlimit(n)[1]) for n in names)}\n",
                 seconds=10.0) as scorer:
        said = scorer.score(answers("x"))[0].explanation
        memory, processor, file, processes = map(int, said.split())
    assert 0 < memory < 64 << 30 and (file, processes) == (0, 256)
    assert processor == int(scorer._cpu_seconds)


def test_a_process_that_has_used_half_of_its_processor_time_is_changed_for_a_new_one(tmp_path, monkeypatch):
    counts = "COUNT = []\ndef compute_score():\n    COUNT.append(1)\n    return 1 / len(COUNT)\n"
    with scoring(tmp_path, counts) as scorer:
        assert scorer.score(answers("x"))[0].score == 1.0
        monkeypatch.setattr(Confined, "used_seconds", lambda process: process.cpu_seconds / 2 + 1)
        assert scorer.score(answers("x"))[0].score == 0.5
        assert scorer.score(answers("x"))[0].score == 1.0


def test_a_sandbox_that_lets_a_program_start_is_none(monkeypatch):
    monkeypatch.setattr(confine, "_fork", lambda: os.open("/nowhere", os.O_RDONLY))
    monkeypatch.setattr(confine.socket, "socket", lambda *_: os.open("/nowhere", os.O_RDONLY))
    monkeypatch.setattr(confine.os, "kill", lambda *_: os.open("/nowhere", os.O_RDONLY))
    with pytest.raises(NoWall, match="a program could be started"):
        confine.knock(("seccomp",), {"parent": os.getppid()})


def test_what_is_no_score_costs_its_own_score(tmp_path):
    with scoring(tmp_path, functions(WORTHLESS, "return ") + "\ndef good(): return 1\n") as scorer:
        verdicts = scorer.score(answers(*WORTHLESS, "good"))
    causes = {name: verdict.cause for name, verdict in zip(WORTHLESS, verdicts, strict=False)}
    assert set(causes.values()) == {"invalid_result"}, causes
    assert all(verdict.score is None and verdict.explanation for verdict in verdicts[:-1])
    assert verdicts[-1].score == 1.0


ENDS = """
import json, os, signal, sys, time
def compute_score(solution_str):
    return globals()[solution_str]()
def good():
    return 1
def exits():
    os._exit(0)
def ends():
    sys.exit(0)
def sleeps():
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    while True:
        time.sleep(1)
def spins():
    import re
    re.match(r'(a+)+$', 'a' * 64 + 'b')
def crashes():
    import ctypes
    ctypes.string_at(0)
def forges():
    import struct
    for fd in range(3, 64):
        try:
            os.write(fd, struct.pack('<I', 1 << 31))
        except OSError:
            pass
    return 1
def babbles():
    import struct
    body = b'[1]'
    for fd in range(3, 64):
        try:
            os.write(fd, struct.pack('<I', len(body)) + body)
        except OSError:
            pass
    return 1
def prints():
    text = 'x' * (1 << 24)
    for _ in range(64):
        print(text)
        os.write(2, text.encode())
    return 1
def patches():
    json.dumps = json.JSONEncoder.encode = lambda *_: '"1"'
    os.write, os.read = print, print
    time.monotonic = lambda: 0
    return 1
"""
CAUSES = {"exits": "crash", "ends": "error", "crashes": "crash", "forges": "invalid_result",
          "babbles": "invalid_result", "prints": "", "patches": ""}
HANGS = {"sleeps": "timeout", "spins": "timeout"}


@pytest.mark.parametrize(("causes", "seconds"), [(CAUSES, 20.0), (HANGS, 1.0)], ids=["ends", "hangs"])
def test_an_answer_that_ends_hangs_or_lies_costs_its_own_score_and_nothing_else(tmp_path, causes, seconds):
    said = [word for deed in causes for word in ("good", deed, "good")]
    with scoring(tmp_path, ENDS, seconds=seconds) as scorer:
        verdicts = scorer.score(answers(*said))
    deeds = dict(zip(causes, verdicts[1::3], strict=True))
    assert {name: verdict.cause for name, verdict in deeds.items()} == causes
    assert [verdict.score for verdict in verdicts[::3] + verdicts[2::3]] == [1.0] * 2 * len(causes)


def test_nothing_is_left_behind(tmp_path):
    with scoring(tmp_path, "import threading, time\nthreading.Thread(target=time.sleep, args=(60,)).start()\n"
                           "def compute_score(): return 1\n") as scorer:
        assert scorer.score(answers("x"))[0].score == 1.0
        child = psutil.Process(scorer._process._process.pid)
        assert os.waitid(os.P_PID, child.pid, os.WSTOPPED | os.WNOWAIT).si_code == os.CLD_STOPPED
    assert not child.is_running()
    assert list((tmp_path / "scratch").iterdir()) == []


def test_it_ends_with_whoever_started_it(tmp_path):
    code = ("import sys, os; sys.path.insert(0, sys.argv[1]); from pathlib import Path; "
            "from evaluations.bundles.process import Confined; "
            "child = Confined(Path(sys.argv[2]), walls=['seccomp']); print(child._process.pid, flush=True); "
            "os.kill(os.getpid(), 9)")
    done = subprocess.run([sys.executable, "-c", code, str(Path(__file__).parents[2]), str(tmp_path)],
                          capture_output=True, text=True, check=False)
    with suppress(psutil.NoSuchProcess):
        psutil.Process(int(done.stdout)).wait(10)


def test_a_machine_without_walls_refuses_bundles_unless_the_operator_allows_them(tmp_path, monkeypatch):
    walls = Walls([], {"seccomp": "Function not implemented", "landlock": "Function not implemented"})
    monkeypatch.setattr(scorers, "find_walls", lambda: walls)
    with pytest.raises(NotReady) as refused, scoring(tmp_path, "def compute_score(): return 1"):
        pass
    assert refused.value.code == "no_sandbox" and "seccomp: Function not implemented" in refused.value.reason
    archive = tmp_path / "bundle.zip"
    allowed = BundleScorer(archive, "reward", "compute_score", Limits(unsandboxed_bundles=True), tmp_path,
                           sha256=hashlib.sha256(archive.read_bytes()).hexdigest())
    assert [verdict.score for verdict in allowed.score(answers("x"))] == [1.0]
    assert "WITHOUT A SANDBOX" in scorers.said_of(allowed.walls)
    allowed.close()


def test_a_wall_that_does_not_hold_stops_it_before_the_bundle_is_read(tmp_path):
    """Everything can be knocked at; here the file system's wall shows what it should hide."""
    needs("landlock")
    with pytest.raises(NotStarted) as refused:
        Confined(tmp_path, walls=["landlock"], files=Path("/etc"))
    assert (refused.value.wall, refused.value.code) == ("landlock", "sandbox_failed")
    assert "it does not hold" in refused.value.reason


def test_this_machine_gives_a_sandbox():
    assert find_walls().is_sandbox


def run_as_ordinary_user(code, *words):
    """What a program prints that runs under a user ID of its own, without a capability."""
    def become():
        user, group = os.geteuid(), os.getegid()
        if ctypes.CDLL(None).unshare(0x10000000):
            raise OSError("no namespace of users")
        Path("/proc/self/setgroups").write_text("deny")
        Path("/proc/self/uid_map").write_text(f"1000 {user} 1")
        Path("/proc/self/gid_map").write_text(f"1000 {group} 1")

    done = subprocess.run([sys.executable, "-c", code, *words], preexec_fn=become, capture_output=True, text=True,
                          check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()
