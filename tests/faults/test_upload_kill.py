"""`kill -9` of the sender and of the web half-way through an upload: the same command gives the same version."""

import json
import os
import subprocess

import pytest

from optimize_site.appliance.places import CHECKOUT
from tests.e2e.conftest import wait_until
from tests.e2e.tiny_box import ask

SHARDS = 40


@pytest.fixture(scope="module", autouse=True)
def context(box, http):
    """What the sender calls the box."""
    ask(box, "contexts", "add", "box", "--url", box.url, "--token", http.token)


@pytest.fixture(scope="module")
def held(box):
    """Tells how many shards lie in the box's store; whatever else does lay there before."""

    def stored():
        return set((box.home / "blobs").glob("*/*"))

    before = stored()
    return lambda: len(stored() - before)


@pytest.fixture(scope="module")
def rows(tmp_path_factory):
    """Rows that make SHARDS shards of 1 MiB."""
    path = tmp_path_factory.mktemp("rows") / "rows.jsonl"
    with path.open("w") as file:
        for number in range(SHARDS * 1000):
            messages = [{"role": "user", "content": f"{number} " + "where is it? " * 60},
                        {"role": "assistant", "content": f"answer {number} " + "x" * 120}]
            file.write(json.dumps({"messages": messages}) + "\n")
    return path


def words(name, rows):
    return ["registry", "datasets", "register", f"triage/{name}", "-f", str(rows), "--shard-size", "1MiB", "--context",
            "box", "-o", "json"]


def start(box, name, rows):
    """The command as a process of its own."""
    env = os.environ | {"OPTIMIZE_HOME": str(box.home)}
    return subprocess.Popen([str(CHECKOUT / "optimize"), *words(name, rows)], env=env, stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE)


@pytest.mark.requirement("R309")
def test_an_upload_survives_the_death_of_its_sender_and_of_the_web(box, held, rows):
    sender = start(box, "killed", rows)
    wait_until(lambda: held() >= 3, 60, "some shards")
    sender.kill()
    sender.wait()
    before = held()
    assert 3 <= before < SHARDS
    upload, = ask(box, "registry", "datasets", "uploads")["uploads"]
    assert upload["shardCount"] > before + 3

    sender = start(box, "killed", rows)
    wait_until(lambda: held() >= before + 3, 60, "more shards")
    os.kill(box.process("web").pid, 9)
    out, errors = sender.communicate(timeout=240)
    assert sender.returncode == 0, errors
    made = json.loads(out)
    whole = json.loads(box.run(*words("undisturbed", rows)).stdout)
    assert (made["digest"], made["contentHash"], made["exampleCount"]) == (
        whole["digest"], whole["contentHash"], SHARDS * 1000)
    assert made["statistics"] == whole["statistics"] and made["findings"] == whole["findings"]
    assert held() == upload["shardCount"]
