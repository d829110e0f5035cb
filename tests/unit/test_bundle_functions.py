"""What a bundle's function may look like, what it is given, and what may come back."""

import hashlib
import json
import subprocess

import pytest

from evaluations.bundles.inside.calling import Call, NoFunction, read
from evaluations.bundles.scorer import make_bundle
from evaluations.bundles.walls import find_walls
from evaluations.scoring.protocol import item_document
from evaluations.scoring.spec import Limits
from evaluations.scoring.terms import Item, NotReady
from optimize_site.kernel.scoring import scorer_command, scorer_environment, scorer_start, scoring_limits
from tests.bundles import answers, packed, scoring
from tests.grader_service import reply, serving

PROMPT = [{"role": "user", "content": "2 + 2"}]


@pytest.mark.requirement("R029")
def test_a_function_gets_what_it_takes_by_verl_s_names(tmp_path):
    text = ("import json\nfrom . import helpers\nTABLE = open(__file__.replace('reward', 'helpers')).read()\n"
            "def compute_score(data_source, solution_str, ground_truth, extra_info=None):\n"
            "    return {'score': helpers.share(solution_str, ground_truth), 'acc': True, 'reason': json.dumps("
            "[data_source, solution_str, ground_truth, extra_info, len(TABLE)])}\n")
    helpers = "def share(a, b): return 1.0 if a == b else 0.5\n"
    item = Item(7, PROMPT, "4", "four", tools=[{"name": "add"}], calls=None,
                columns={"data_source": "school", "level": 3, "index": "its own"})
    with scoring(tmp_path, text, helpers=helpers) as scorer:
        verdict = scorer.score([item])[0]
    assert (verdict.score, verdict.is_exact, verdict.fields) == (0.5, False, {"acc": True})
    given = ('{"data_source": "school", "level": 3, "index": 7, "prompt": [{"role": "user", "content": "2 + 2"}], '
             '"tools": [{"name": "add"}], "calls": null}')
    assert verdict.explanation == f'["school", "4", "four", {given}, {len(helpers)}]'


@pytest.mark.parametrize("text", [
    "async def compute_score(solution_str):\n    import asyncio\n    await asyncio.sleep(0)\n"
    "    return await asyncio.to_thread(len, solution_str) / 4\n",
    "def compute_score(solution_strs, ground_truths):\n    return [len(said) / 4 for said in solution_strs]\n",
    "async def compute_score(solution_strs):\n    return [len(said) / 4 for said in solution_strs]\n",
    "class Length:\n    def __call__(self, *, solution_str, weight=4): return len(solution_str) / weight\n"
    "compute_score = Length()\n",
    "def compute_score(**given):\n    return len(given['solution_str']) / 4\n",
    "def compute_score(weight=4, solution_str=''):\n    return len(solution_str) / weight\n",
], ids=["async", "many", "async-many", "object", "any", "own-order"])
def test_sync_and_async_one_and_many(tmp_path, text):
    with scoring(tmp_path, text) as scorer:
        assert [verdict.score for verdict in scorer.score(answers("a", "bb", "cccc"))] == [0.25, 0.5, 1.0]


def test_a_function_of_many_that_fails_is_asked_one_by_one(tmp_path):
    """Wrong counts, errors and an end of the process: only the answer at fault loses its score."""
    text = ("import os\ndef compute_score(solution_strs):\n"
            "    if 'end' in solution_strs: os._exit(3)\n"
            "    if 'raise' in solution_strs: raise ValueError('no')\n"
            "    if 'few' in solution_strs: return []\n"
            "    if 'dict' in solution_strs: return {'score': 1}\n"
            "    return [1 for _ in solution_strs]\n")
    with scoring(tmp_path, text) as scorer:
        verdicts = scorer.score(answers("a", "end", "b", "raise", "few", "dict", "c"))
    assert [verdict.cause for verdict in verdicts] == ["", "crash", "", "error", "invalid_result", "invalid_result", ""]
    assert verdicts[3].explanation == "ValueError: no (reward.py, line 4)"
    assert verdicts[1].explanation == "The bundle ended its process with the status 3."


@pytest.mark.parametrize(("text", "code", "said"), [
    ("import numpy_of_nobody", "bundle_does_not_import", "numpy_of_nobody"),
    ("1 / 0", "bundle_does_not_import", "ZeroDivisionError: division by zero (reward.py, line 1)"),
    ("raise ValueError('a\\0b\\ud800')", "bundle_does_not_import", "a\ufffdb?"),
    ("raise SystemExit(0)", "bundle_does_not_import", "SystemExit"),
    ("import os; os._exit(0)", "bundle_broke", "status 0 while it was imported"),
    ("import os; os.write(3, b'x' * 9); os.write(4, b'x' * 9); os.write(5, b'x' * 9); os.write(6, b'x' * 9)\n",
     "bundle_", ""),
    ("def other(): pass", "bundle_without_function", "has no function compute_score"),
    ("compute_score = 1", "bundle_without_function", "has no function compute_score"),
    ("def compute_score(solution_str, tokenizer): return 1", "bundle_function_asks_more", "needs tokenizer"),
    ("def compute_score(solution_str, /): return 1", "bundle_function_asks_more", "by its place only"),
], ids=["import", "error", "odd", "exit", "end", "noise", "none", "number", "more", "places"])
def test_what_cannot_be_called_is_refused_before_anything_is_scored(tmp_path, text, code, said):
    with pytest.raises(NotReady) as refused, scoring(tmp_path, text):
        pass
    assert refused.value.code.startswith(code) and said in refused.value.reason
    assert list((tmp_path / "scratch").iterdir()) == []


def test_other_bytes_than_those_that_were_named_are_not_run(tmp_path):
    archive = tmp_path / "bundle.zip"
    archive.write_bytes(packed(reward="def compute_score(): return 1"))
    body = {"archive": str(archive), "sha256": "0" * 64, "module": "reward", "function": "compute_score"}
    for wrong in (body, body | {"archive": str(tmp_path / "none.zip")}, {}):
        with pytest.raises(NotReady) as refused:
            make_bundle(wrong, Limits(), tmp_path)
        assert refused.value.code in ("bundle_unreadable", "bad_spec")


def test_what_comes_back_is_read_as_documented():
    assert [read(value) for value in (0, 1, True, 0.5)] == [0.0, 1.0, 1.0, 0.5]
    assert read({"score": 0.5, "acc": False, "explanation": "so", "n": 3}) == [0.5, "so", {"acc": False}]
    many = read({"score": 1} | {f"part {number}" + "x" * 100: True for number in range(50)} | {"reason": "y" * 9000})
    assert (len(many[2]), max(map(len, many[2])), len(many[1])) == (32, 80, 2000)


def test_a_function_without_a_signature_is_refused():
    with pytest.raises(NoFunction):
        Call(dict.fromkeys)


@pytest.mark.requirement("R029")
def test_a_reward_of_two_functions_and_a_rule_is_scored_by_one_process_anywhere(tmp_path):
    """As a job starts it: from another folder, without the box's environment, the spec in its first line."""
    archive = tmp_path / "bundle.zip"
    archive.write_bytes(packed(reward="def compute_score(solution_str):\n    return len(solution_str) / 4\n"
                                      "def form(solution_str, ground_truth):\n    raise KeyError(ground_truth)\n"))
    bundle = {"archive": str(archive), "sha256": hashlib.sha256(archive.read_bytes()).hexdigest(), "module": "reward"}
    spec = {"terms": [{"name": "reward", "kind": "rule", "bundle": bundle | {"function": "compute_score"}},
                      {"name": "form", "kind": "rule", "weight": 0.2, "bundle": bundle | {"function": "form"}},
                      {"name": "exact", "kind": "grader", "grader": "exact"}], "scratch": str(tmp_path / "scratch")}
    request = {"id": 1, "items": [item_document(item) for item in answers("ab", "abcd", expected="ab")]}
    done = subprocess.run(scorer_command(), input="".join(json.dumps(line) + "\n" for line in (spec, request)),
                          cwd=tmp_path, env={}, capture_output=True, text=True, check=True)
    ready, reply = map(json.loads, done.stdout.splitlines())
    found = {term["name"]: [(verdict["score"], verdict["cause"]) for verdict in term["verdicts"]]
             for term in reply["terms"]}
    assert ready == {"ready": True}
    assert found == {"reward": [(0.5, ""), (1.0, "")], "form": [(None, "error")] * 2, "exact": [(1.0, ""), (0.0, "")]}
    assert "in a sandbox of" in done.stderr and list((tmp_path / "scratch").iterdir()) == []


@pytest.mark.skipif(not find_walls().is_sandbox, reason="this machine gives bundles no sandbox")
def test_a_bundle_beside_a_service_sees_nothing_of_what_the_service_is_sent(tmp_path, monkeypatch):
    """Neither the variable and the file of a header, nor the process that holds them."""
    (tmp_path / "key").write_text("of-the-file")
    look = (f"import os\ndef compute_score(solution_str):\n    found = [str(dict(os.environ))]\n    for path in "
            f"({str(tmp_path / 'key')!r}, f'/proc/{{os.getppid()}}/environ', '/proc/self/environ', "
            "'/proc/1/environ'):\n        try:\n            found.append(open(path, 'rb').read().decode())\n"
            "        except OSError as error:\n            found.append(type(error).__name__)\n"
            "    return {'score': 1, 'reason': ' '.join(found)}\n")
    (tmp_path / "bundle.zip").write_bytes(packed(reward=look))
    with serving(reply({"score": 0.5})) as service:
        host = f"127.0.0.1:{service.port}"
        monkeypatch.setenv("OPTIMIZE_TRAINER_GRADERS_HTTP_HEADERS",
                           f"{host} X-File=file:{tmp_path / 'key'},{host} X-Variable=env:GRADER_KEY")
        monkeypatch.setenv("GRADER_KEY", "of-the-variable")
        bundle = {"archive": str(tmp_path / "bundle.zip"), "module": "reward", "function": "compute_score",
                  "sha256": hashlib.sha256((tmp_path / "bundle.zip").read_bytes()).hexdigest()}
        limits = scoring_limits() | {"http": scoring_limits()["http"] | {"allowedHosts": [host]}}
        spec = {"terms": [{"name": "look", "kind": "rule", "bundle": bundle},
                          {"name": "ask", "kind": "grader", "grader": f"http:http://{host}/"}],
                "limits": limits, "scratch": str(tmp_path / "scratch")}
        request = {"id": 1, "items": [item_document(item) for item in answers("a")]}
        done = subprocess.run(scorer_command(), input="".join(json.dumps(line) + "\n" for line in (spec, request)),
                              cwd=tmp_path, env=scorer_environment(), capture_output=True, text=True, check=True)
    assert "X-File: of-the-file\r\nX-Variable: of-the-variable" in service.heads[0]
    assert [term["verdicts"][0]["score"] for term in json.loads(done.stdout.splitlines()[1])["terms"]] == [1.0, 0.5]
    for secret in ("of-the-file", "of-the-variable"):
        assert secret not in done.stdout + done.stderr + json.dumps(scorer_start(spec))
    assert scorer_start(spec)["environment"] == ["GRADER_KEY"]


def test_a_sandbox_leaves_what_scoring_needs(tmp_path):
    """SQL on rows in memory, code that a model wrote, threads, time zones, exact numbers."""
    text = ("import asyncio, decimal, hashlib, random, sqlite3, zoneinfo\n"
            "from concurrent.futures import ThreadPoolExecutor\n"
            "def compute_score(solution_str):\n    return globals()[solution_str]()\n"
            "def sql():\n    rows = sqlite3.connect(':memory:')\n    rows.execute('create table t(a)')\n"
            "    rows.executemany('insert into t values(?)', [(n,) for n in range(2000)])\n"
            "    return rows.execute('select sum(a) from t').fetchone()[0] == 1999000\n"
            "def code():\n    made = {}\n    exec('def f(x): return 2 * x', made)\n    return made['f'](0.5)\n"
            "def threads():\n    with ThreadPoolExecutor(4) as pool:\n        return sum(pool.map(len, 'abcd')) == 4\n"
            "def zones():\n    return str(zoneinfo.ZoneInfo('UTC')) == 'UTC'\n"
            "def loop():\n    return asyncio.run(asyncio.wait_for(asyncio.to_thread(float, '1'), 60))\n")
    with scoring(tmp_path, text) as scorer:
        verdicts = scorer.score(answers("sql", "code", "threads", "zones", "loop"))
    assert [(verdict.score, verdict.explanation) for verdict in verdicts] == [(1.0, "")] * 5
