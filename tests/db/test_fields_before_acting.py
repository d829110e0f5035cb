"""A field that is not there is refused before a command does anything; without a name the fields are listed instead."""

import json

import pytest

from datasets.management.commands.datasets import Command as Datasets
from datasets.models import ExampleSet, Upload
from registry.management.commands.registry import Command as Registry
from registry.management.commands.workloads import Command as Workloads
from registry.models import Workload
from tests.factories import chat_rows, make_workload

pytestmark = pytest.mark.django_db


@pytest.fixture
def rows(tmp_path):
    path = tmp_path / "rows.jsonl"
    path.write_bytes(chat_rows(2))
    return str(path)


def test_a_verb_with_an_unknown_field_does_nothing(capsys):
    assert Workloads().run(["create", "triage", "--json", "name,nope"]) == 2
    told = capsys.readouterr().err
    assert "There is no field 'nope'" in told
    assert "workloadId" in told
    assert not Workload.objects.exists()


def test_nothing_of_a_file_is_sent_for_an_unknown_field(rows):
    assert Registry().run(["datasets", "register", "triage/train", "-f", rows, "--json", "nope"]) == 2
    assert Datasets().run(["create", "-f", rows, "--json", "nope"]) == 2
    assert not Upload.objects.exists()
    assert not ExampleSet.objects.exists()


def test_the_fields_of_what_a_verb_gives_are_listed_without_doing_it(capsys):
    assert Workloads().run(["create", "triage", "--json"]) == 0
    assert "references" in json.loads(capsys.readouterr().out)
    assert not Workload.objects.exists()


def test_a_file_is_not_written_for_an_unknown_field(rows, tmp_path):
    out = tmp_path / "out.jsonl"
    assert Datasets().run(["import", rows, "--out", str(out), "--json", "nope"]) == 2
    assert not out.exists()


def test_known_fields_are_shown_and_the_work_is_done(rows, capsys):
    make_workload("triage")
    words = ["datasets", "register", "triage/train", "-f", rows, "--json", "reference,isNew"]
    assert Registry().run(words) == 0
    assert json.loads(capsys.readouterr().out) == {"reference": "triage/train:v1", "isNew": True}


def test_what_changes_nothing_shows_fields_of_its_own(rows, capsys):
    words = ["datasets", "register", "triage/train", "-f", rows, "--no-upload", "--json", "exampleCount"]
    assert Registry().run(words) == 0
    assert json.loads(capsys.readouterr().out) == {"exampleCount": 2}
