"""Names, versions and aliases."""

import threading

import pytest
from django.db import connection

from optimize_site.kernel.auth import Actor
from optimize_site.kernel.errors import AmbiguousPrefix, Forbidden, NotFound
from optimize_site.kernel.models import Event
from registry import queries
from registry.errors import AmbiguousName, InvalidReference, ReservedAlias, UnknownVersion
from registry.models import Version
from registry.operations.artifacts import NewVersion, annotate_version, register_version, remove_alias, set_alias
from registry.operations.namespaces import annotate_namespace
from registry.queries import get_artifact, get_version, resolve_version

OPERATOR = Actor("olga", "operator")
VIEWER = Actor("vera", "viewer")
pytestmark = pytest.mark.django_db


def content(mark):
    return NewVersion("chat-jsonl-v1", [{"path": "examples.jsonl", "sha256": mark * 64, "bytes": 1}],
                      content_hash=mark * 64)


def register(reference, mark="a", kind="dataset", **more):
    return register_version(kind, reference, content(mark), actor=OPERATOR, **more)[0]


@pytest.mark.requirement("R020")
def test_versions_are_numbered_in_order_and_the_same_content_is_the_same_version():
    first, is_new = register_version("dataset", "Support/Train", content("a"), actor=OPERATOR)
    assert (first.reference, is_new) == ("support/train:v1", True)
    assert register("support/train", "b").reference == "support/train:v2"
    again, is_new = register_version("dataset", "support/train", content("a"), actor=OPERATOR)
    assert (again.pk, is_new) == (first.pk, False)
    assert Event.objects.filter(type="dataset.registered").count() == 2


def test_the_digest_is_over_the_listing_whatever_its_order():
    objects = [{"path": "b", "sha256": "1" * 64, "bytes": 1}, {"path": "a", "sha256": "2" * 64, "bytes": 2}]
    assert NewVersion("x", objects).digest == NewVersion("y", objects[::-1]).digest
    assert NewVersion("x", objects).digest != NewVersion("x", objects, descriptor={"a": 1}).digest


@pytest.mark.requirement("R051")
def test_every_form_of_a_reference_finds_its_version():
    one, two = register("support/train", "a", alias="good"), register("support/train", "b")
    assert resolve_version("dataset", "support/train") == two
    assert resolve_version("dataset", "SUPPORT/train:v1") == one
    assert resolve_version("dataset", "support/train:good") == one
    assert resolve_version("dataset", "support/train:latest") == two
    assert resolve_version("dataset", f"support/train@sha256:{one.digest}") == one
    assert resolve_version("dataset", "train") == two
    assert resolve_version("dataset", "train:v1") == one
    assert resolve_version("dataset", "a" * 64) == one
    assert resolve_version("dataset", "aaaaaaaa") == one
    assert resolve_version("dataset", one.pk[:16]) == one


@pytest.mark.requirement("R051")
def test_a_bare_name_means_the_workloads_own_then_the_plain_one_then_a_unique_one():
    ours, plain, other = register("ours/train", "a"), register("default/train", "b"), register("other/train", "c")
    only = register("other/only", "d")
    assert resolve_version("dataset", "train", namespace="ours") == ours
    assert resolve_version("dataset", "train", namespace="none") == plain
    assert resolve_version("dataset", "train") == plain
    assert resolve_version("dataset", "other/train") == other
    assert resolve_version("dataset", "only") == only


def test_a_bare_name_reads_current_where_it_exists():
    first = register("default/train", "a", alias="current")
    second = register("default/train", "b")
    assert resolve_version("dataset", "train") == first
    assert resolve_version("dataset", "default/train") == second
    assert resolve_version("dataset", "train:latest") == second


def test_a_name_of_several_namespaces_is_refused_naming_them():
    register("a/train")
    register("b/train")
    with pytest.raises(AmbiguousName, match="a/train, b/train"):
        resolve_version("dataset", "train")


def test_a_prefix_of_several_contents_is_refused_and_one_of_several_names_is_not():
    register("a/one", "a")
    register("b/one", "a")
    register("a/two", "b")
    assert resolve_version("dataset", "aaaa").reference == "a/one:v1"
    Version.objects.filter(artifact__name="two").update(content_hash="aaaa" + "b" * 60)
    with pytest.raises(AmbiguousPrefix, match="a/one:v1"):
        resolve_version("dataset", "aaaa")


@pytest.mark.parametrize(("text", "said", "hint"), [
    ("support/trian", "There is no dataset 'support/trian'", "support/train"),
    ("trian", "looked for it as ours/trian, as default/trian, as a name of its own", "support/train"),
    ("other/train", "There is no dataset", "support/train"),
    ("support/train:v9", "support/train has no version v9", "v1, good"),
    ("support/train:bad", "support/train has no version bad", "v1, good"),
    ("feedfacefeed", "as a hash", "list"),
])
def test_what_is_not_there_is_said_with_what_was_tried_and_what_is_near(text, said, hint):
    register("support/train", alias="good")
    with pytest.raises(UnknownVersion) as info:
        resolve_version("dataset", text, namespace="ours")
    assert said in info.value.detail
    assert hint in info.value.hint
    assert info.value.exit_code == 4


def test_kinds_are_apart():
    register("support/thing", kind="model")
    with pytest.raises(UnknownVersion):
        resolve_version("dataset", "support/thing")


def test_an_alias_moves_and_keeps_its_history():
    one, two = register("support/train", "a"), register("support/train", "b")
    artifact = one.artifact
    set_alias(artifact, "Good", one, actor=OPERATOR)
    set_alias(artifact, "good", two, actor=OPERATOR)
    set_alias(artifact, "good", two, actor=OPERATOR)
    assert [move.version.number for move in queries.alias_history(artifact, "good")] == [1, 2]
    remove_alias(artifact, "good", actor=OPERATOR)
    with pytest.raises(UnknownVersion):
        queries.get_alias(artifact, "good")
    set_alias(artifact, "good", one, actor=OPERATOR)
    assert [move.version.number for move in queries.alias_history(artifact, "good")] == [1]
    assert artifact.alias_moves.count() == 4
    assert list(Event.objects.filter(type__startswith="alias.").order_by("pk").values_list("type", flat=True)) == [
        "alias.set", "alias.set", "alias.removed", "alias.set"]


@pytest.mark.parametrize("name", ["latest", "v2", "V10"])
def test_reserved_aliases_are_neither_set_nor_removed(name):
    version = register("support/train")
    with pytest.raises(ReservedAlias):
        set_alias(version.artifact, name, version, actor=OPERATOR)
    with pytest.raises(ReservedAlias):
        remove_alias(version.artifact, name, actor=OPERATOR)
    with pytest.raises(ReservedAlias):
        register("support/other", alias=name)
    assert not queries.list_artifacts("dataset", namespace="support").filter(name="other").exists()


def test_an_alias_points_at_its_own_artifact_only():
    ours, other = register("support/train"), register("support/other", "b")
    with pytest.raises(NotFound):
        set_alias(ours.artifact, "good", other, actor=OPERATOR)


def test_a_viewer_changes_nothing():
    version = register("support/train")
    for change in (lambda: register_version("dataset", "a/b", content("a"), actor=VIEWER),
                   lambda: set_alias(version.artifact, "x", version, actor=VIEWER),
                   lambda: remove_alias(version.artifact, "x", actor=VIEWER),
                   lambda: annotate_version(version, description="x", actor=VIEWER),
                   lambda: annotate_namespace(version.artifact.namespace, description="x", actor=VIEWER)):
        with pytest.raises(Forbidden):
            change()


def test_a_note_is_set_left_and_cleared_without_touching_the_version():
    version = register("support/train")
    assert annotate_version(version, description="cleaned", actor=OPERATOR).description == "cleaned"
    assert annotate_version(version, description=None, actor=OPERATOR).description == "cleaned"
    assert annotate_version(version, description="", actor=OPERATOR).description == ""
    assert Version.objects.get().digest == version.digest


@pytest.mark.parametrize("name", ["../x", "a/../b", "/etc/x", "a\\b/c", "a/b\0", "a/" + "x" * 65, "a", "a/b:v1"])
def test_names_are_never_paths(name):
    with pytest.raises(InvalidReference):
        register(name)
    with pytest.raises(InvalidReference):
        get_artifact("dataset", name)


def test_a_version_is_found_by_its_label():
    version = register("support/train", alias="good")
    for label in ("v1", "V1", "good", "latest", f"sha256:{version.digest}"):
        assert get_version(version.artifact, label) == version
    with pytest.raises(UnknownVersion):
        get_version(version.artifact, "v2")


def test_namespaces_say_what_they_hold():
    register("support/train")
    register("support/eval")
    register("support/triage", kind="model")
    found = queries.list_namespaces().get()
    assert (found.num_datasets, found.num_models, found.num_bundles) == (2, 1, 0)
    assert queries.names_in(found) == {"datasets": ["eval", "train"], "models": ["triage"], "bundles": []}
    with pytest.raises(NotFound, match="no namespace 'suport'") as info:
        queries.get_namespace("suport")
    assert "support" in info.value.hint


@pytest.mark.django_db(transaction=True)
def test_registering_at_once_gives_each_content_one_number():
    def work(mark):
        try:
            register("support/train", mark)
        finally:
            connection.close()

    threads = [threading.Thread(target=work, args=(mark,)) for mark in "abcdabcd"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(Version.objects.values_list("number", flat=True)) == [1, 2, 3, 4]
