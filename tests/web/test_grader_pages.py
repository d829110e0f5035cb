"""Graders on all surfaces: which there are, whether one can be used, what it says of an answer."""

import html
import json

import pytest
from django.test import Client
from django.urls import reverse

from evaluations.graders import RULES
from evaluations.management.commands.graders import Command
from optimize_site.kernel.auth import LOCAL_SECRET
from tests.grader_service import reply, serving

pytestmark = pytest.mark.django_db
ROUTE = "/v1/training/graders"


@pytest.fixture
def api():
    return Client(headers={"Authorization": f"Bearer {LOCAL_SECRET}"})


def post(api, path, **body):
    return api.post(f"{ROUTE}/{path}", body, content_type="application/json")


def test_the_route_lists_every_grader_with_its_parameters_and_an_example_that_it_takes(api):
    found = api.get(ROUTE).json()["graders"]
    assert [rule["name"] for rule in found] == list(RULES)
    for rule in found:
        assert post(api, "validate", grader=rule["example"]["grader"]).json()["grader"] == rule["example"]["grader"]


def test_validating_gives_the_one_text_and_every_parameter_or_a_sentence(api):
    good = post(api, "validate", grader='numeric: {"absolute": 1.0}').json()
    assert good["grader"] == 'numeric:{"absolute":1}'
    assert good["parameters"] == {"absolute": 1, "relative": 0, "which": "last"}
    bad = post(api, "validate", grader='numeric:{"absolut":1}')
    assert bad.status_code == 422 and bad.json()["code"] == "malformed_grader"
    assert bad.json()["detail"] == "The grader numeric has no parameter absolut."
    assert "absolute" in bad.json()["hint"]


def test_a_grader_is_tried_on_rows_and_what_it_cannot_judge_is_no_zero(api):
    rows = [{"answer": "4", "expected": "4"}, {"answer": "5", "expected": "4"}, {"answer": "4", "expected": "four"}]
    found = post(api, "run", grader="numeric", rows=rows).json()
    assert (found["meanScore"], found["scored"], found["unscored"]) == (0.5, 2, 1)
    assert [verdict["score"] for verdict in found["verdicts"]] == [1.0, 0.0, None]
    assert found["verdicts"][2]["unscoredCause"] == "expected_without_number"
    assert post(api, "run", grader="numeric", rows=rows * 7).status_code == 400
    assert post(api, "run", grader="numeric", rows=[]).status_code == 400


def test_the_commands_say_the_same(capsys, tmp_path):
    assert Command().run(["list"]) == 0
    said = capsys.readouterr().out
    assert all(name in said for name in RULES)
    assert Command().run(["validate", "exact:{}", "-o", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["grader"] == "exact"
    assert Command().run(["validate", "exakt"]) == 3
    assert "'exakt' is no grader." in capsys.readouterr().err
    assert Command().run(["run", "exact", "--answer", "a", "--expected", "a"]) == 0
    assert "1.0000" in capsys.readouterr().out
    file = tmp_path / "rows.json"
    file.write_text('[{"answer": "a", "expected": "a"}, {"answer": "b", "expected": ""}]')
    assert Command().run(["run", "exact", "-f", str(file)]) == 0
    said = capsys.readouterr().out
    assert "unscored" in said and "Mean score 1.0000 over 1 scored; 1 unscored." in said
    assert Command().run(["run", "exact"]) == 2


@pytest.fixture
def service(monkeypatch):
    """A service that the operator lists: the score is the share of the answer's letters that were asked for."""
    def say(envelope, connection):
        asked, given = envelope["input"][-1]["content"] if envelope["input"] else "", envelope["output"]
        score = sum(letter in asked for letter in given) / len(given) if given else None
        reply({"score": score, "explanation": f"<b>{given}</b>"})(envelope, connection)

    with serving(say) as found:
        monkeypatch.setenv("OPTIMIZE_TRAINER_GRADERS_HTTP_HOSTS", f"127.0.0.1:{found.port}")
        yield f"http:http://127.0.0.1:{found.port}/"


def test_a_service_is_validated_without_being_asked_and_tried_on_rows(api, service, capsys):
    found = post(api, "validate", grader=service.replace("http://", "HTTP://")).json()
    assert (found["grader"], found["parameters"]["encrypted"]) == (service, False)
    rows = [{"answer": "aab", "prompt": [{"role": "user", "content": "a"}]}, {"answer": ""}]
    found = post(api, "run", grader=service, rows=rows).json()
    assert [verdict["score"] for verdict in found["verdicts"]] == [2 / 3, None]
    assert found["verdicts"][1]["unscoredCause"] == "no_verdict" and found["unscored"] == 1
    assert Command().run(["run", service, "--answer", "a"]) == 0
    assert "<b>a</b>" in capsys.readouterr().out
    assert Command().run(["validate", "http:http://127.0.0.1:1/"]) == 3
    assert "The host 127.0.0.1:1 may not be asked" in capsys.readouterr().err
    assert post(api, "validate", grader="http:file:///etc/passwd").json()["code"] == "malformed_grader"


def test_a_service_that_wants_to_know_who_asks_is_told_and_nobody_else(api, operator, monkeypatch, tmp_path, capsys):
    """The name of the header is shown; where its value lies stays in the settings, the value in its file."""
    secret, key = "a-key-of-the-box", tmp_path / "key"
    key.write_text(f"Bearer {secret}")
    with serving(lambda envelope, connection: reply({"score": 1, "explanation": service.heads[-1]})(
            envelope, connection)) as service:
        host, grader = f"127.0.0.1:{service.port}", f"http:http://127.0.0.1:{service.port}/"
        monkeypatch.setenv("OPTIMIZE_TRAINER_GRADERS_HTTP_HOSTS", host)
        monkeypatch.setenv("OPTIMIZE_TRAINER_GRADERS_HTTP_HEADERS", f"{host} Authorization=file:{key}")
        said = [post(api, "validate", grader=grader), post(api, "run", grader=grader, rows=[{"answer": "a"}])]
        assert said[0].json()["parameters"]["headers"] == ["Authorization"]
        assert "Authorization: ***" in said[1].json()["verdicts"][0]["explanation"]
        said.append(operator.post(reverse("evaluations:graders"), {
            "grader": "http", "target": grader.removeprefix("http:"), "answer": "a"}))
        assert Command().run(["validate", grader]) == Command().run(["run", grader, "--answer", "a"]) == 0
        key.write_text(f"{secret}\n{secret}")
        said.append(post(api, "run", grader=grader, rows=[{"answer": "a"}]))
    assert (said[-1].status_code, "one line" in said[-1].json()["detail"]) == (422, True), said[-1].content
    assert len(service.heads) == 3 and all(f"Authorization: Bearer {secret}" in head for head in service.heads)
    assert secret not in "".join(answer.content.decode() for answer in said) + "".join(capsys.readouterr())


def test_only_an_operator_has_a_service_asked_and_its_words_are_no_markup(viewer, operator, service):
    address, sent = reverse("evaluations:graders"), {"grader": "http", "target": service.removeprefix("http:"),
                                                     "asked": "a", "answer": "aa"}
    assert "What was asked" in viewer.get(address, {"reference": service}).content.decode()
    assert viewer.post(address, sent).status_code == 403
    judged = operator.post(address, sent, headers={"HX-Request": "true"}).content.decode()
    assert "&lt;b&gt;aa&lt;/b&gt;" in judged and "<b>aa" not in judged and service in judged
    assert operator.post(address, sent | {"target": ""}).status_code == 422


@pytest.mark.parametrize("name", RULES)
def test_each_grader_has_a_page_on_which_its_example_is_judged(viewer, name):
    address = reverse("evaluations:graders")
    shown = viewer.get(address, {"grader": name}).content.decode()
    assert RULES[name].summary.split("'")[0] in html.unescape(shown)
    example = RULES[name].example
    sent = {"grader": name, "expected": example.expected, "answer": example.answer}
    for parameter in RULES[name].parameters:
        if parameter.name in example.parameters:
            value = example.parameters[parameter.name]
            sent[parameter.name] = "\n".join(value) if parameter.kind == "texts" else (
                json.dumps(value) if not isinstance(value, str) else value)
    judged = html.unescape(viewer.post(address, sent, headers={"HX-Request": "true"}).content.decode())
    assert "Name it like this" in judged and f'<pre class="pre">{name}' in judged
    assert "<html" not in judged and "<html" in viewer.post(address, sent).content.decode()


def test_a_grader_that_is_refused_says_why_beside_the_form_and_nothing_said_is_markup(viewer):
    address = reverse("evaluations:graders")
    sent = {"grader": "regex", "pattern": "(", "answer": "<b>x</b>", "expected": ""}
    refused = viewer.post(address, sent)
    assert refused.status_code == 422
    assert "does not parse" in refused.content.decode() and "<b>x</b>" not in refused.content.decode()
    found = viewer.post(address, sent | {"pattern": ".*"}, headers={"HX-Request": "true"}).content.decode()
    assert "<b>x" not in found and "&lt;b&gt;x" in found
    assert viewer.post(address, sent | {"grader": "weighted", "terms": "{"}).status_code == 400
    assert viewer.post(address, {"grader": "numeric", "absolute": "a lot"}).status_code == 422
    assert viewer.get(address, {"grader": "frog"}).status_code == 404


def test_the_page_says_how_a_terminal_tries_the_same(viewer):
    address = reverse("evaluations:graders")
    shown = html.unescape(viewer.get(address, {"grader": "answer-line"}).content.decode())
    assert "graders run answer-line --answer '9 eggs" in shown and '"rows": [{"answer": "9 eggs' in shown
    shown = html.unescape(viewer.get(address, {"grader": "numeric"}).content.decode())
    assert """graders run 'numeric:{"absolute": 0.01}' --answer""" in shown
    sent = {"grader": "weighted", "terms": "{", "answer": "it's 4"}
    assert "graders run weighted --answer" in html.unescape(viewer.post(address, sent).content.decode())


def test_a_page_opens_with_what_a_reference_says(viewer):
    shown = viewer.get(reverse("evaluations:graders"), {"reference": 'contains:{"texts":["refund","5 days"]}'})
    assert "refund\n5 days</textarea>" in shown.content.decode()


@pytest.mark.parametrize(("grader", "label"), [("model", "Model"), ("http", "URL"), ("bundle", "Function")])
def test_what_a_grader_names_is_asked_for_by_what_it_is(viewer, grader, label):
    page = viewer.get(reverse("evaluations:graders"), {"grader": grader}).content.decode()
    assert f'<label for="p-target">{label}</label>' in page and "default None" not in page
