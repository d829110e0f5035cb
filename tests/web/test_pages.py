"""Every page of the URL table, for a viewer: shown where it shows, refused where it does."""

import json
import re
from html import unescape
from urllib.parse import urlencode

import pytest
from django.test import Client
from django.urls import URLPattern, get_resolver, reverse

from datasets.models import Analysis
from tests import factories as make
from tests.unit.test_archives import zipped
from tests.web import scenes
from tests.web.conftest import browser_of

PAGES = ("box", "registry", "datasets", "runs", "evaluations", "endpoints")
# Tried in tests of their own.
ELSEWHERE = {"box:sign-in", "box:changes", "box:changes-of", "runs:preview", "runs:preview-run"}


def routes():
    """The names of all page routes, as the URL table has them."""
    for entry in get_resolver().url_patterns:
        if getattr(entry, "namespace", None) in PAGES:
            for found in entry.url_patterns:
                assert isinstance(found, URLPattern), f"{found} nests routes; teach this test to read them"
                yield f"{entry.namespace}:{found.name}"


def samples(box) -> dict[str, tuple]:
    """What to fill into each route that takes something."""
    run, model, task = box["second"].pk, box["second"].model_id, box["workload"].name
    evaluation, base = box["second_score"].pk, box["base"].pk
    version = box["second_score"].dataset_id
    dataset, analysis = (task, "train"), Analysis.objects.latest("created_at").pk
    snapshot, pipeline = box["snapshot"].pk, box["pipeline"].pk
    return {
        "box:log": ("web.log",), "box:docs-page": ("quickstart",), "box:docs-image": ("run.png",),
        "registry:base-model": (base,),
        "registry:namespace": (task,), "registry:archive": (task,), "registry:unarchive": (task,),
        "registry:annotate": (task,), "registry:bundle": (task, "scoring"), "registry:bundle-alias": (task, "scoring"),
        "registry:bundle-alias-remove": (task, "scoring"), "registry:bundle-note": (task, "scoring"),
        "evaluations:workload-archive": (task,), "evaluations:workload-unarchive": (task,),
        "evaluations:model-alias": (model,), "evaluations:model-alias-remove": (model,),
        "evaluations:model-note": (model,),
        "registry:select": (base,), "registry:deselect": (base,), "datasets:version": (version,),
        "datasets:detail": dataset, "datasets:alias": dataset, "datasets:alias-remove": dataset,
        "datasets:note": dataset, "datasets:analyze": dataset, "datasets:analysis": (analysis,),
        "datasets:analysis-cancel": (analysis,), "datasets:analysis-again": (analysis,),
        "datasets:upload-abandon": (box["upload"].pk,), "runs:detail": (run,),
        "runs:series": (run,), "runs:pause": (run,), "runs:resume": (run,), "runs:prioritize": (run,),
        "runs:annotate": (run,), "runs:verify": (run,), "runs:rollouts": (box["rewarded"].pk,),
        "runs:rollouts-of-row": (box["rewarded"].pk, 0), "evaluations:mark": (evaluation,),
        "runs:branch": (run,), "runs:branch-check": (run,), "runs:sweep": (run,), "runs:sweep-check": (run,),
        "runs:continue": (run,), "runs:continue-check": (run,), "runs:tensorboard": (run,),
        "runs:snapshot": (snapshot,), "runs:pin": (snapshot,), "runs:unpin": (snapshot,), "runs:release": (snapshot,),
        "runs:register": (snapshot,), "evaluations:pipeline": (pipeline,), "evaluations:pipeline-cancel": (pipeline,),
        "evaluations:pipeline-resume": (pipeline,), "evaluations:pipeline-annotate": (pipeline,),
        "evaluations:comparison": (box["comparison"].pk,),
        "runs:metrics-csv": (run,), "runs:cancel": (run,), "evaluations:workload": (task,),
        "evaluations:promote": (task,), "evaluations:workload-settings": (task,), "evaluations:model": (model,),
        "endpoints:try": (model,), "endpoints:trial": (box["trial"].pk,), "evaluations:detail": (evaluation,),
        "evaluations:cancel": (evaluation,), "evaluations:retry": (evaluation,),
        "evaluations:judge": (box["judge"].pk,),
    }



def queries(box) -> dict[str, dict[str, object]]:
    """What to ask for where a page is of what its address names."""
    both = {"run": [box["second"].pk, box["first"].pk], "across": "yes"}
    return {"evaluations:promote": {"model": box["second"].model_id}, "runs:compare": both,
            "runs:compare-series": both, "evaluations:comparison-new": {"source": box["snapshot"].pk}}


SENT = {
    "datasets:alias": {"alias": "now", "version": "v1"}, "datasets:alias-remove": {"alias": "now", "version": "v1"},
    "datasets:note": {"version": "v1", "description": "x"}, "datasets:analyze": {"version": "v1", "model": scenes.BASE},
    "evaluations:workload-settings": {"description": "x"},
    "endpoints:try": {"input": "hello"}, "evaluations:workload-new": {"name": "another"},
    "datasets:upload": {"reference": "a/b"}, "registry:annotate": {"description": "x"},
    "registry:bundle-alias": {"alias": "now", "version": "v1"}, "evaluations:model-alias": {"alias": "now"},
    "registry:bundle-alias-remove": {"alias": "now", "version": "v1"}, "evaluations:model-note": {"description": "x"},
    "registry:bundle-note": {"version": "v1", "description": "x"}, "evaluations:model-alias-remove": {"alias": "now"},
    "runs:pause": {"checkpoint": "save"}, "runs:release": {"owner": "a"},
    "evaluations:pipeline-annotate": {"description": "x"},
    "evaluations:mark": {"position": "0", "mark": "right"},
    "evaluations:graders": {"grader": "exact", "expected": "yes", "answer": "yes"},
}
# POST routes that change nothing a role guards.
READING = {"box:sign-out", "runs:check", "runs:branch-check", "runs:continue-check", "runs:sweep-check",
           "evaluations:pipeline-check", "evaluations:graders", "runs:fields"}


@pytest.fixture
def box(db):
    from endpoints.operations.trials import start_trial
    from optimize_site.kernel.auth import LOCAL
    from optimize_site.kernel.conf import home
    from registry.operations.bundles import register_bundle

    found = scenes.busy_box()
    register_bundle(f"{found['workload'].name}/scoring", [zipped(("reward.py", b"x = 1"))], actor=LOCAL)
    found |= scenes.lineage(found)
    found["rewarded"] = scenes.submit_rewarded(2)
    found["trial"] = start_trial(found["second"].model, [{"role": "user", "content": "hi"}], actor=LOCAL)
    found["judge"] = make.make_judge(found["second"].model, "evaluation", found["second_score"].pk)
    (home() / "logs").mkdir(exist_ok=True)
    (home() / "logs" / "web.log").write_text("started\n")
    return found


def address(name, box):
    path = reverse(name, args=samples(box).get(name, ()))
    asked = queries(box).get(name)
    return f"{path}?{urlencode(asked, doseq=True)}" if asked else path


@pytest.mark.requirement("R003")
def test_every_page_is_shown_to_a_viewer_and_every_change_is_refused(box):
    client = browser_of("viewer")
    for name in routes():
        if name in ELSEWHERE or name == "box:sign-out":
            continue
        answer = client.get(address(name, box))
        assert answer.status_code in {200, 302, 405}, f"{name} answered {answer.status_code}"
        if answer.status_code == 302:
            assert "/login" not in answer["Location"], name
        refused = client.post(address(name, box), sent_to(name, box))
        allowed = {200} if name in READING else {403, 405}
        assert refused.status_code in allowed, f"POST {name} answered {refused.status_code}"
        if refused.status_code == 403:
            assert b"This needs the role" in refused.content, name


def sent_to(name, box):
    if name == "datasets:upload":
        from django.core.files.uploadedfile import SimpleUploadedFile

        return SENT[name] | {"file": SimpleUploadedFile("x.jsonl", b"{}")}
    if name == "evaluations:new":
        return {"model": box["second"].model_id}
    if name == "evaluations:promote":
        return {"model": box["second"].model_id}
    if name == "runs:continue":
        return {"steps": "2"}
    if name in {"runs:branch", "runs:sweep"}:
        return {"snapshot": box["snapshot"].pk, "steps": "2", "grid": scenes.GRID}
    if name == "evaluations:pipeline-new":
        return {"text": json.dumps(box["pipeline"].descriptor)}
    if name == "evaluations:comparison-new":
        return {"source": box["snapshot"].pk, "branch": box["first"].pk}
    return SENT.get(name, {})


def test_every_page_says_how_to_do_the_same_from_a_terminal(box):
    client = browser_of("viewer")
    without = {"box:search", "box:docs", "box:docs-page", "box:docs-image", "box:log", "endpoints:trial", "runs:series",
               "runs:metrics-csv", "runs:tensorboard", "runs:compare-series", "runs:verify"}
    for name in set(routes()) - ELSEWHERE - without:
        answer = client.get(address(name, box))
        if answer.status_code == 200:
            text = answer.content.decode()
            assert "The same from a terminal" in text, name
            assert "./optimize " in text and "curl " in text, name


def test_every_page_that_lives_is_also_given_in_part(box):
    client = browser_of("viewer")
    for name in ("box:home", "box:box", "registry:base-models", "runs:list", "evaluations:list", "runs:detail",
                 "evaluations:detail", "evaluations:workload", "registry:base-model", "runs:compare",
                 "evaluations:pipelines", "evaluations:pipeline", "evaluations:comparisons", "evaluations:comparison"):
        answer = client.get(address(name, box), headers={"HX-Request": "true"})
        assert answer.status_code in {200, 286}, name
        assert b"<html" not in answer.content, name
        assert b'id="live"' in answer.content, name


def test_polling_ends_with_the_run(box):
    client = browser_of("viewer")
    part = {"HX-Request": "true"}
    assert client.get(reverse("runs:detail", args=[box["first"].pk]), headers=part).status_code == 286
    assert client.get(reverse("runs:detail", args=[box["running"].pk]), headers=part).status_code == 200


def test_every_link_of_every_page_leads_somewhere(box):
    client = browser_of("admin")
    linked = set()
    for name in set(routes()) - ELSEWHERE - {"box:sign-out"}:
        answer = client.get(address(name, box))
        if answer.status_code == 200 and "html" in answer["Content-Type"]:
            linked |= {unescape(link) for link in re.findall(r'href="(/[^"#]*)', answer.content.decode())}
    for path in sorted(path for path in linked if not path.startswith("/static/")):
        assert client.get(path).status_code in {200, 302}, f"{path} leads nowhere"


def test_an_empty_box_shows_every_list_with_its_next_step(viewer):
    for name in ("box:home", "evaluations:workloads", "runs:list", "evaluations:models", "datasets:list",
                 "evaluations:list", "box:box", "registry:base-models", "runs:new", "registry:namespaces",
                 "registry:bundles", "registry:garbage", "runs:compare", "evaluations:pipelines",
                 "evaluations:pipeline-new", "evaluations:comparisons", "evaluations:comparison-new",
                 "evaluations:judges"):
        assert viewer.get(reverse(name)).status_code == 200, name
    assert b"From nothing to a model of your own" in viewer.get("/").content
    assert b"No run yet" in viewer.get(reverse("runs:list")).content


def test_nothing_there_is_said_in_the_boxs_voice(viewer):
    answer = viewer.get("/runs/ffff")
    assert answer.status_code == 404
    assert b"There is no run" in answer.content
    assert viewer.get("/nowhere").status_code == 404
    assert b"There is nothing at this address" in viewer.get("/nowhere").content


def test_a_form_without_its_csrf_token_is_refused(db):
    client = browser_of("admin", enforce_csrf_checks=True)
    for name in ("runs:new", "evaluations:workload-new", "evaluations:new", "datasets:upload", "box:sign-out",
                 "evaluations:pipeline-new", "evaluations:comparison-new"):
        assert client.post(reverse(name), {"name": "x"}).status_code == 403, name
    assert Client(enforce_csrf_checks=True).post("/login", {"username": "x"}).status_code == 403
