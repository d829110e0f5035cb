"""The registry's pages: namespaces, bundles, garbage, lineage, and what archiving does to lists."""

from datetime import timedelta

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.urls import reverse
from django.utils import timezone

from optimize_site.kernel.auth import LOCAL
from optimize_site.kernel.blobs import put_stream
from optimize_site.kernel.models import Blob
from registry.models import BaseModel, WorkloadReference
from registry.operations.artifacts import place_alias
from registry.operations.bundles import register_bundle
from registry.operations.namespaces import archive_namespace
from registry.operations.workloads import archive_workload
from registry.queries import get_namespace
from registry.workload_queries import get_workload
from tests import factories as make
from tests.unit.test_archives import zipped

pytestmark = pytest.mark.django_db
SCORING = zipped(("reward.py", b"x = 1"), ("tables/", b""), ("tables/<b>.json", b"{}"))


@pytest.fixture
def held():
    base = make.put_weights(make.make_base_model())
    run = make.make_run(phase="COMPLETED")
    model = make.make_adapter(run.workload, base, dataset="triage/train:v1")
    bundle = register_bundle("triage/scoring", [SCORING], actor=LOCAL, description="exact match").version
    return {"model": model, "bundle": bundle, "run": run}


def text(client, name, *args, **query):
    answer = client.get(reverse(name, args=args), query)
    assert answer.status_code == 200, name
    return answer.content.decode()


def test_a_namespace_shows_what_it_holds_and_is_archived_from_its_page(operator, held):
    page = text(operator, "registry:namespace", "triage")
    for name in ("train", "tiny", "scoring"):
        assert f">{name}</a>" in page
    assert "triage" in text(operator, "registry:namespaces")
    assert operator.post(reverse("registry:archive", args=["triage"])).status_code == 302
    assert "nothing can be registered in it" in text(operator, "registry:namespace", "triage")
    assert get_namespace("triage").archived_at is not None
    assert operator.post(reverse("registry:annotate", args=["triage"]), {"description": "done"}).status_code == 302
    assert operator.post(reverse("registry:unarchive", args=["triage"])).status_code == 302
    assert get_namespace("triage").description == "done" and get_namespace("triage").archived_at is None


def test_a_viewer_sees_why_nothing_can_be_archived(viewer, held):
    assert "Needs the role operator" in text(viewer, "registry:namespace", "triage")
    assert viewer.post(reverse("registry:archive", args=["triage"])).status_code == 403
    assert viewer.post(reverse("evaluations:workload-archive", args=["triage"])).status_code == 403


@pytest.mark.requirement("R294")
@pytest.mark.parametrize(("name", "shown"), [("registry:namespaces", "/namespaces/triage"),
                                             ("registry:bundles", "/bundles/triage/scoring"),
                                             ("datasets:list", "/datasets/triage/train"),
                                             ("evaluations:models", "triage/tiny:v1")])
def test_pages_leave_an_archived_namespace_out_until_asked(viewer, held, name, shown):
    assert shown in text(viewer, name)
    archive_namespace(get_namespace("triage"), actor=LOCAL)
    assert shown not in text(viewer, name)
    page = text(viewer, name, archived="yes")
    assert shown in page and '<span class="tag">archived</span>' in page


@pytest.mark.requirement("R297", "R299")
@pytest.mark.parametrize("name", ["evaluations:workloads", "runs:list"])
def test_pages_leave_an_archived_workload_out_until_asked(viewer, held, name):
    archive_workload(get_workload("triage"), actor=LOCAL)
    assert "/workloads/triage" not in text(viewer, name)
    page = text(viewer, name, archived="yes")
    assert "/workloads/triage" in page and '<span class="tag">archived</span>' in page


@pytest.mark.requirement("R298", "R301")
def test_a_workload_is_archived_from_its_page_once_its_work_is_over(operator, held):
    address = reverse("evaluations:workload-archive", args=["triage"])
    open_run = make.make_run()
    refused = operator.post(address, headers={"HX-Request": "true"})
    assert refused.status_code == 409 and open_run.pk[:12] in refused.content.decode()
    type(open_run).objects.filter(pk=open_run.pk).update(phase="CANCELLED")
    assert operator.post(address).status_code == 302
    page = text(operator, "evaluations:workload", "triage")
    assert "takes no new work" in page and "is still open" in page and "New run" not in page.split("id=\"live\"")[0]
    assert operator.post(reverse("evaluations:workload-unarchive", args=["triage"])).status_code == 302
    assert get_workload("triage").archived_at is None


def test_a_bundle_is_uploaded_shown_and_aliased(operator):
    sent = SimpleUploadedFile("scoring.zip", SCORING)
    made = operator.post(reverse("registry:bundle-upload"), {"reference": "triage/scoring", "file": sent})
    assert made.status_code == 302
    page = operator.get(made["Location"]).content.decode()
    assert "reward.py" in page and "tables/&lt;b&gt;.json" in page and "v1" in page
    alias = reverse("registry:bundle-alias", args=["triage", "scoring"])
    assert operator.post(alias, {"alias": "serving", "version": "v1"}).status_code == 302
    assert "serving" in text(operator, "registry:bundles")
    assert operator.post(alias, {"alias": "v7", "version": "v1"}).status_code == 422


@pytest.mark.parametrize(("kind", "named"), [("registry:bundle", ["triage", "scoring"]), ("evaluations:model", None)])
def test_an_operator_takes_an_alias_away_and_keeps_a_note_on_a_bundles_and_a_models_page(operator, held, kind, named):
    named = named or [held["model"].pk]
    shown = {"version": "v1"}
    operator.post(reverse(f"{kind}-alias", args=named), shown | {"alias": "serving"})
    assert "Remove the alias serving" in text(operator, kind, *named)
    gone = operator.post(reverse(f"{kind}-alias-remove", args=named), shown | {"alias": "serving"}, follow=True)
    assert "serving points at nothing any more." in gone.content.decode()
    assert "Remove the alias" not in text(operator, kind, *named)
    operator.post(reverse(f"{kind}-note", args=named), shown | {"description": "From <May>"})
    assert text(operator, kind, *named).count("From &lt;May&gt;") == 2, "under the name, and in the form"
    operator.post(reverse(f"{kind}-note", args=named), shown | {"description": ""})
    assert "From &lt;May&gt;" not in text(operator, kind, *named)


def test_the_alias_of_a_champion_stays_on_the_models_page(operator, held):
    model = held["model"]
    WorkloadReference.objects.create(workload=held["run"].workload, name="champion", version=model, moved_by="mara")
    place_alias(model.artifact, "champion", model, actor=LOCAL)
    refused = operator.post(reverse("evaluations:model-alias-remove", args=[model.pk]), {"alias": "champion"})
    assert refused.status_code == 409 and "is the champion of the workload triage" in refused.content.decode()
    assert model.aliases.get().name == "champion"


@pytest.mark.parametrize(("fields", "said"), [
    ({"file": SimpleUploadedFile("x.zip", b"not a zip")}, "not a ZIP archive"),
    ({"file": SimpleUploadedFile("x.zip", zipped(("../x", b"1")))}, "cannot be kept"),
    ({}, "No ZIP was sent"), ({"reference": "../x", "file": SimpleUploadedFile("x.zip", SCORING)}, "is no n")])
def test_a_refused_upload_says_why_beside_the_form(operator, fields, said):
    answer = operator.post(reverse("registry:bundle-upload"), {"reference": "triage/scoring", "alias": "kept"} | fields)
    assert answer.status_code in {400, 422}
    page = answer.content.decode()
    assert said in page and 'value="kept"' in page


def test_a_models_page_tells_its_lineage_both_ways_and_moves_aliases(operator, held):
    page = text(operator, "evaluations:model", held["model"].pk)
    assert "triage/train:v1" in page and "dataset, training" in page and "What came from it" in page
    base = BaseModel.objects.get().version
    assert "triage/tiny:v1" in text(operator, "evaluations:model", base.pk)
    alias = reverse("evaluations:model-alias", args=[held["model"].pk])
    assert operator.post(alias, {"alias": "serving"}).status_code == 302
    assert operator.post(alias, {"alias": "champion"}).status_code in {409, 422}
    assert held["model"].aliases.get().name == "serving"


def test_garbage_is_listed_for_everybody_and_removed_by_an_admin(viewer, admin):
    put_stream([b"nobody's bytes"])
    Blob.objects.update(held_at=timezone.now() - timedelta(days=3))
    page = text(viewer, "registry:garbage")
    assert "Needs the role admin" in page and "14 B" in page
    assert viewer.post(reverse("registry:collect")).status_code == 403
    assert admin.post(reverse("registry:collect")).status_code == 302
    assert not Blob.objects.exists()


def test_the_admin_archives_too(admin, held):
    pick = {"action": "archive", "_selected_action": ["triage"]}
    admin.post(reverse("admin:registry_namespace_changelist"), pick)
    assert get_namespace("triage").archived_at is not None
    workload = get_workload("triage")
    admin.post(reverse("admin:registry_workload_changelist"), {"action": "archive", "_selected_action": [workload.pk]})
    assert get_workload("triage").archived_at is not None
    assert "triage/train:v1" in admin.get(reverse("admin:registry_parent_changelist")).content.decode()


def test_search_finds_bundles_and_namespaces(viewer, held):
    found = viewer.get(reverse("box:search"), {"q": "scoring"})
    assert found["Location"].startswith("/bundles/triage/scoring")
    assert "/namespaces/triage" in text(viewer, "box:search", q="triage")
