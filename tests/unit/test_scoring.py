"""The scorer process: its spec, its lines, what becomes of scorers that misbehave, and that it ends with its parent."""

import io
import json
import os
import select
import subprocess
import sys
import threading

import pytest

from evaluations.graders import Verdict
from evaluations.scoring.makers import make_terms
from evaluations.scoring.process import serve
from evaluations.scoring.protocol import item_document, read_verdict, verdict_document
from evaluations.scoring.spec import read_spec
from evaluations.scoring.terms import Item, NotReady, Term, score_term
from optimize_site.kernel.scoring import PROJECT, scorer_command, scorer_environment
from tests.grader_service import reply, serving

EXACT = {"name": "exact", "weight": 1, "kind": "grader", "grader": "exact"}
NUMERIC = {"name": "numeric", "weight": 0.5, "kind": "grader", "grader": "numeric"}


def said(*lines):
    """What the process says to these lines."""
    out = io.StringIO()
    status = serve(io.StringIO("".join((line if isinstance(line, str) else json.dumps(line)) + "\n"
                                       for line in lines)), out)
    return status, [json.loads(line) for line in out.getvalue().splitlines()]


def ask(number, *answers):
    return {"id": number, "items": [item_document(Item(row, [], answer, "4")) for row, answer in enumerate(answers)]}


def test_every_term_says_of_every_answer_in_order():
    status, (ready, first, second) = said({"terms": [NUMERIC, EXACT]}, ask(7, "4", "it is 4", "no"), ask(8))
    assert (status, ready, first["id"]) == (0, {"ready": True}, 7)
    assert [(term["name"], [verdict["score"] for verdict in term["verdicts"]]) for term in first["terms"]] == [
        ("numeric", [1.0, 1.0, 0.0]), ("exact", [1.0, 0.0, 0.0])]
    assert all(term["seconds"] >= 0 and term["tokens"] == 0 for term in first["terms"])
    assert [term["verdicts"] for term in second["terms"]] == [[], []]


def test_a_line_that_is_no_request_is_answered_and_the_next_one_too():
    _, replies = said({"terms": [EXACT]}, "no JSON", {"id": 3}, {"id": 4, "items": [{"row": 0}]}, "[" * 100_000,
                      ask(5, "4"))
    assert [reply.get("id") for reply in replies[1:]] == [None, 3, 4, None, 5]
    assert all("error" in reply for reply in replies[1:5]) and "terms" in replies[5]


@pytest.mark.parametrize(("change", "word"), [
    ({"terms": []}, "terms"), ({"terms": [EXACT, EXACT]}, "one name"), ({"terms": [EXACT | {"name": "a b"}]}, "name"),
    ({"terms": [EXACT | {"weight": "much"}]}, "weight"), ({"terms": [EXACT | {"kind": "guess"}]}, "kind"),
    ({"terms": [EXACT | {"judge": {}}]}, "one of"), ({"terms": [{"name": "a"}]}, "one of"),
    ({"terms": ["exact"]}, "JSON"), ({"onFailure": "panic"}, "onFailure"), ({"limits": {"seconds": 0}}, "seconds"),
    ({"limits": {"memoryBytes": "1G"}}, "memoryBytes"),
    ({"limits": {"http": {"allowedHosts": "all"}}}, "allowedHosts"), ({"scratch": "here"}, "scratch")])
def test_a_spec_that_says_nothing_clear_is_refused_and_the_process_ends(change, word):
    status, (refused,) = said({"terms": [EXACT]} | change, ask(1, "4"))
    assert (status, refused["ready"], refused["code"]) == (1, False, "bad_spec")
    assert word in refused["reason"]


def test_a_term_that_cannot_be_made_is_told_with_what_to_do():
    _, (refused,) = said({"terms": [EXACT, NUMERIC | {"grader": 'numeric:{"absolut":1}'}]})
    assert (refused["code"], "absolut" in refused["reason"]) == ("malformed_grader", True)
    assert "absolute" in refused["hint"]
    _, (refused,) = said({"terms": [EXACT | {"grader": "http:http://127.0.0.1:9/"}]})
    assert refused["code"] == "refused_host" and "127.0.0.1:9" in refused["reason"]


class Told:
    """A scorer that does what it is told."""

    def __init__(self, does):
        self.does, self.closed, self.tokens = does, 0, 0

    def score(self, items):
        self.tokens += 11
        return self.does(items)

    def close(self):
        self.closed += 1


def _raise(items):
    raise RuntimeError("broken")


@pytest.mark.parametrize(("does", "cause"), [
    (lambda items: [Verdict(float("nan"))] * 2, "invalid_result"),
    (lambda items: [Verdict(float("inf"))] * 2, "invalid_result"), (lambda items: [Verdict(1.0)], "invalid_result"),
    (lambda items: [], "invalid_result"), (_raise, "error"), (lambda items: None, "error"),
    (lambda items: ["yes", "no"], "error")])
def test_a_scorer_that_breaks_or_lies_costs_these_answers_their_score_and_nothing_more(does, cause):
    found = score_term(Term("told", Told(does)), [Item(0, [], "a"), Item(1, [], "b")])
    assert [(verdict.score, verdict.cause) for verdict in found.verdicts] == [(None, cause)] * 2
    assert found.tokens == 11


def test_what_a_scorer_says_is_text_that_can_be_kept():
    odd = Verdict(1.0, True, {"a\0\ud800": True}, "\0\ud800" + "x" * 9000)
    (verdict,) = score_term(Term("told", Told(lambda items: [odd])), [Item(0, [], "a")]).verdicts
    assert verdict.fields == {"a\ufffd?": True} and len(verdict.explanation) == 2000
    assert read_verdict(json.loads(json.dumps(verdict_document(verdict)))) == verdict
    verdict.explanation.encode()


def test_terms_that_wait_are_asked_side_by_side():
    """Each of two services answers only once the other was asked too."""
    both = threading.Barrier(2, timeout=20)

    def say(envelope, connection):
        both.wait()
        reply({"score": 0.5})(envelope, connection)

    with serving(say) as one, serving(say) as two:
        hosts = [f"127.0.0.1:{service.port}" for service in (one, two)]
        terms = [{"name": f"service-{number}", "grader": f"http:http://{host}/"} for number, host in enumerate(hosts)]
        _, (_, answer) = said({"terms": terms, "limits": {"http": {"allowedHosts": hosts}}}, ask(1, "4"))
    assert [term["verdicts"][0]["score"] for term in answer["terms"]] == [0.5, 0.5]


def test_what_was_made_before_a_term_that_fails_is_let_go(monkeypatch):
    made = []

    def make(body, limits, scratch):
        if body == "bad":
            raise NotReady("bad", "It is bad.")
        made.append(Told(_raise))
        return made[-1]

    monkeypatch.setattr("evaluations.scoring.makers.MAKERS", {"grader": make})
    with pytest.raises(NotReady, match="It is bad"):
        make_terms(read_spec({"terms": [EXACT | {"grader": "good"}, NUMERIC | {"grader": "bad"}]}))
    assert [scorer.closed for scorer in made] == [1]


def start(**options):
    return subprocess.Popen(scorer_command(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd="/",
                            **options)


def test_the_process_starts_anywhere_sees_no_secret_and_ends_with_its_input(monkeypatch):
    monkeypatch.setenv("OPTIMIZE_ACCESS_TOKEN", "secret")
    assert "secret" not in scorer_environment().values()
    hostile = {"PYTHONPATH": str(PROJECT / "gpu_worker" / "child"), "PYTHONSAFEPATH": "1", "PYTHONSTARTUP": "/nowhere"}
    process = start(env=scorer_environment() | hostile)
    said, _ = process.communicate(json.dumps({"terms": [EXACT]}) + "\n" + json.dumps(ask(1, "4")) + "\n", timeout=60)
    assert [json.loads(line).get("id") for line in said.splitlines()] == [None, 1]
    assert process.returncode == 0


def test_the_process_ends_when_whoever_started_it_is_killed():
    starter = (f"import subprocess, sys, time\np = subprocess.Popen({scorer_command()!r}, stdin=subprocess.PIPE, "
               "stdout=subprocess.PIPE)\np.stdin.write(b'{\"terms\":[{\"name\":\"a\",\"grader\":\"exact\"}]}\\n')\n"
               "p.stdin.flush()\np.stdout.readline()\nprint(p.pid, flush=True)\ntime.sleep(600)\n")
    parent = subprocess.Popen([sys.executable, "-c", starter], stdout=subprocess.PIPE, text=True)
    pid = int(parent.stdout.readline())
    watched = os.pidfd_open(pid)
    parent.kill()
    parent.wait()
    parent.stdout.close()
    assert select.select([watched], [], [], 30)[0], "it lives on"
    os.close(watched)


def test_the_scorer_imports_neither_the_framework_nor_the_training_libraries():
    code = (f"import sys; sys.path.insert(0, {str(PROJECT)!r}); import evaluations.scoring.process, "
            "evaluations.scoring.makers; print([n for n in ('django', 'torch', 'celery') if n in sys.modules])")
    found = subprocess.run([sys.executable, "-I", "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"
