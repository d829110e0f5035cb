"""The admin: every model is there, nothing is changed but through operations."""

import re

import pytest
from django.apps import apps
from django.contrib import admin as django_admin
from django.urls import reverse

from evaluations.models import Pipeline
from optimize_site.kernel import accounts
from optimize_site.kernel.auth import LOCAL
from optimize_site.kernel.models import Event, Token, User
from tests import factories as make
from tests.web import scenes

pytestmark = pytest.mark.django_db
OURS = ("kernel", "registry", "datasets", "runs", "evaluations", "endpoints")
GUARDED = {"user", "token"}
ADDED = {"user", "token", "run", "pipeline"}
NOTED = {"run", "pipeline"}


def models():
    return [model for label in OURS for model in apps.get_app_config(label).get_models()]


@pytest.mark.requirement("R002")
def test_every_model_of_the_box_is_in_the_admin():
    missing = [model.__name__ for model in models() if model not in django_admin.site._registry]
    assert missing == []


@pytest.mark.requirement("R002")
def test_an_admin_reads_every_list_and_every_row_and_can_change_none(admin, viewer):
    scenes.busy_box(steps=12, rows=12)
    accounts.issue_token("laptop", "a-admin", actor=LOCAL)
    for model in models():
        name = f"admin:{model._meta.app_label}_{model._meta.model_name}"
        assert admin.get(reverse(f"{name}_changelist")).status_code == 200, name
        assert admin.get(reverse(f"{name}_changelist"), {"q": "a"}).status_code == 200, name
        row = model.objects.first()
        if row is not None:
            assert admin.get(reverse(f"{name}_change", args=[row.pk])).status_code == 200, name
            asking = viewer if model._meta.model_name in NOTED else admin
            assert asking.post(reverse(f"{name}_change", args=[row.pk]), {}).status_code == 403, name
            assert admin.post(reverse(f"{name}_delete", args=[row.pk]), {"post": "yes"}).status_code == 403, name
        if model._meta.model_name not in ADDED:
            assert admin.get(reverse(f"{name}_add")).status_code == 403, name
        seen = viewer.get(reverse(f"{name}_changelist")).status_code
        assert seen == (403 if model._meta.model_name in GUARDED else 200), name


def act(client, model, action, *rows):
    return client.post(reverse(f"admin:{model}_changelist"),
                       {"action": action, "_selected_action": [row.pk for row in rows]}, follow=True)


@pytest.mark.requirement("R002")
def test_cancelling_a_run_in_the_admin_is_the_operation(operator):
    run = make.make_run(phase="AWAITING_CAPACITY")
    answer = act(operator, "runs_run", "cancel", run)
    run.refresh_from_db()
    assert run.phase == "CANCELLED"
    assert "is being cancelled" in answer.content.decode()
    assert Event.objects.filter(type="run.cancel_requested", actor="a-operator").exists()
    again = act(operator, "runs_run", "cancel", run)
    assert "there is nothing to cancel" in again.content.decode()


def test_a_viewer_is_offered_no_action(viewer):
    run = make.make_run(phase="AWAITING_CAPACITY")
    act(viewer, "runs_run", "cancel", run)
    run.refresh_from_db()
    assert run.phase == "AWAITING_CAPACITY"


def test_an_operator_writes_the_notes_of_runs_and_pipelines_in_the_admin_and_changes_nothing_else(operator, viewer):
    run = make.make_run(phase="AWAITING_CAPACITY")
    pipeline = Pipeline.objects.create(id="e" * 64, workload=run.workload, phase="RUNNING", descriptor={})
    for row, notes in ((run, {"description": "Half the rate.", "config_name": "slow"}),
                       (pipeline, {"description": "Nightly."})):
        name = f"admin:{row._meta.app_label}_{row._meta.model_name}_change"
        address, before = reverse(name, args=[row.pk]), row.phase
        fields = set(re.findall(r'name="(\w+)"', operator.get(address).content.decode()))
        assert fields & {field.name for field in row._meta.fields} == set(notes)
        assert viewer.post(address, notes).status_code == 403
        operator.post(address, notes | {"phase": "FAILED", "failure_reason": "Mine."})
        row.refresh_from_db()
        assert {name: getattr(row, name) for name in notes} == notes and (row.phase, row.failure_reason) == (before, "")
        assert Event.objects.filter(subject_id=row.pk, type__endswith=".annotated", actor="a-operator").count() == 1
        told = operator.post(address, notes | {"description": "x" * 10_001}).content.decode()
        assert "description has 10001 characters; it may have at most 10000" in told
        operator.post(address, dict.fromkeys(notes, ""))
        row.refresh_from_db()
        assert {getattr(row, name) for name in notes} == {""}


def test_accounts_are_made_and_changed_in_the_admin(admin):
    answer = admin.post(reverse("admin:kernel_user_add"), {"username": "nina", "role": "viewer"}, follow=True)
    nina = User.objects.get(username="nina")
    assert "The password of nina is " in answer.content.decode()
    assert nina.check_password(answer.content.decode().split("The password of nina is ")[1].split(";")[0])
    act(admin, "kernel_user", "make_operator", nina)
    nina.refresh_from_db()
    assert nina.role == "operator"
    act(admin, "kernel_user", "shut_out", nina)
    nina.refresh_from_db()
    assert not nina.is_active
    assert "is the only admin" in act(admin, "kernel_user", "make_viewer", User.objects.get(username="a-admin")
                                      ).content.decode()
    assert "is not shown again" in act(admin, "kernel_user", "reset_password", nina).content.decode()


def test_tokens_are_issued_once_and_revoked_in_the_admin(admin):
    user = User.objects.get(username="a-admin")
    answer = admin.post(reverse("admin:kernel_token_add"), {"name": "laptop", "user": user.pk}, follow=True)
    token = Token.objects.get()
    text = answer.content.decode().split("The token is ")[1].split(";")[0]
    assert token.digest not in answer.content.decode() and text.startswith(token.shown)
    act(admin, "kernel_token", "revoke", token)
    token.refresh_from_db()
    assert token.revoked_at is not None


def test_base_models_are_selected_in_the_admin_by_admins_only(admin, operator):
    base = make.make_base_model(phase="UNAVAILABLE")
    act(operator, "registry_basemodel", "select", base)
    base.refresh_from_db()
    assert base.phase == "UNAVAILABLE"
    assert "is selected" in act(admin, "registry_basemodel", "select", base).content.decode()
    base.refresh_from_db()
    assert base.phase == "PENDING"
