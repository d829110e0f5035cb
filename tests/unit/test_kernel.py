"""Errors, canonical JSON, IDs, command-line pieces."""

import argparse
import os
import pickle
import sys
from pathlib import Path

import pytest

from manage import normalise
from optimize_site.kernel.commands import duration, plain, select_fields
from optimize_site.kernel.dispatch import run_command
from optimize_site.kernel.errors import InvalidInput, Problem, Refused
from optimize_site.kernel.hashing import sha256_json
from optimize_site.kernel.ids import derived_id, looks_like_id
from optimize_site.services import database_settings, redis_url


def test_an_error_survives_a_pickle_with_everything_it_says():
    error = Refused("No.", hint="Do.", problems=[Problem("a.b", "bad", "Bad.")], code="x", rows=[1])
    copy = pickle.loads(pickle.dumps(error))
    assert copy.document() == error.document()


def test_a_problem_document_has_what_programs_branch_on_and_people_read():
    document = Refused("No.", hint="Do.", problems=[Problem("a.b", "bad", "Bad.")]).document()
    assert {key: document[key] for key in ("status", "code", "detail", "hint")} == {
        "status": 422, "code": "refused", "detail": "No.", "hint": "Do."}
    assert document["problems"] == [{"path": "a.b", "code": "bad", "message": "Bad.", "hint": ""}]


def test_key_order_and_spelling_of_numbers_do_not_change_a_hash():
    assert sha256_json({"a": 1.0, "b": 2}) == sha256_json({"b": 2, "a": 1})


def test_parts_of_a_derived_id_are_kept_apart():
    assert derived_id("run", "ab", "c") != derived_id("run", "a", "bc")
    assert len(derived_id("run", "x")) == 64


@pytest.mark.parametrize(("text", "expected"), [("0123abcd", True), ("triage", False), ("abc", False)])
def test_a_short_word_is_not_taken_for_an_id(text, expected):
    assert looks_like_id(text) is expected


@pytest.mark.parametrize(("text", "seconds"),
                         [("90", 90), ("30s", 30), ("15m", 900), ("1h30m0s", 5400), ("250ms", 0.25)])
def test_durations_are_read_as_people_write_them(text, seconds):
    assert duration(text) == seconds


def test_a_word_that_is_no_duration_is_refused():
    with pytest.raises(argparse.ArgumentTypeError):
        duration("soon")


@pytest.mark.parametrize(("given", "run"), [
    (["training", "runs", "get"], ["runs", "get"]), (["run", "list"], ["runs", "list"]),
    (["base-models", "list"], ["base_models", "list"]), (["projects", "list"], ["workloads", "list"]),
    (["migrate"], ["migrate"]), (["--version"], ["--version"]), (["help"], ["help"]),
    (["help", "run", "pause"], ["runs", "pause", "--help"])])
def test_nouns_are_accepted_in_the_forms_people_know(given, run):
    assert normalise(["manage.py", *given]) == ["manage.py", *run]


def test_a_command_that_does_not_exist_is_a_usage_error_that_names_the_nearest(capsys):
    with pytest.raises(SystemExit) as info:
        run_command(["./optimize", "workloadz", "list"])
    assert info.value.code == 2
    assert "Did you mean workloads?" in capsys.readouterr().err


def test_help_lists_every_noun_with_its_sentence(capsys):
    run_command(["./optimize", "help"])
    shown = capsys.readouterr().out
    assert "\n  base-models     The base models this box allows" in shown
    assert "\n  workloads " in shown


@pytest.mark.parametrize(("words", "status"), [(["help"], 0), (["runs", "--help"], 0), (["runs", "none"], 2)])
def test_a_reader_who_goes_before_the_end_is_no_error_and_leaves_the_status_as_it_is(words, status, monkeypatch):
    reads, writes = os.pipe()
    os.close(reads)
    with os.fdopen(writes, "w") as nobody:
        monkeypatch.setattr(sys, "stdout", nobody)
        print("what was told before", file=nobody)
        assert status_of(words) == status
        assert Path(f"/proc/self/fd/{nobody.fileno()}").readlink() == Path(os.devnull)


def status_of(words):
    try:
        run_command(["./optimize", *words])
    except SystemExit as ended:
        return ended.code or 0
    return 0


def test_an_argument_that_is_not_utf_8_is_refused_in_a_sentence(capsys):
    with pytest.raises(SystemExit) as info:
        run_command(["./optimize", "runs", "get", "a\udcffb"])
    assert info.value.code == 2
    assert "is not UTF-8" in capsys.readouterr().err


def test_a_file_that_cannot_be_used_is_refused_in_a_sentence(tmp_path, capsys):
    with pytest.raises(SystemExit) as info:
        run_command(["./optimize", "datasets", "split", str(tmp_path / ("x" * 300)), "--held-out", "0.2",
                     "--out-train", str(tmp_path / "a"), "--out-eval", str(tmp_path / "b")])
    assert info.value.code == 2
    assert "File name too long" in capsys.readouterr().err


def test_stored_text_cannot_drive_the_terminal():
    assert "\x1b" not in plain("\x1b[31mred")


def test_fields_select_from_the_rows_of_a_list():
    listing = {"runs": [{"a": 1, "b": 2}], "total": 1}
    assert select_fields(listing, "a") == [{"a": 1}]
    assert select_fields(listing, "") == ["a", "b"]
    assert select_fields({"rows": [], "total": 0}, "a") == []


@pytest.mark.parametrize("document", [{"a": 1, "b": 2}, {"rows": [{"a": 1}, {"b": 2}], "total": 2}, [{"a": 1, "b": 2}]])
def test_a_field_that_is_not_shown_is_a_usage_error_that_lists_those_that_are(document):
    with pytest.raises(InvalidInput) as refused:
        select_fields(document, "a,nope")
    assert (refused.value.exit_code, refused.value.code) == (2, "usage")
    assert "'nope'" in refused.value.detail and refused.value.hint == "Its fields are a, b."


def test_a_database_address_with_a_socket_folder_is_understood(monkeypatch, tmp_path):
    monkeypatch.setenv("DATABASE_URL", "postgresql://me:p%40ss@/box?host=/run/pg")
    settings = database_settings(tmp_path)
    assert (settings["HOST"], settings["USER"], settings["PASSWORD"], settings["NAME"]) == ("/run/pg", "me", "p@ss",
                                                                                            "box")


@pytest.mark.requirement("R005")
def test_a_unix_socket_of_redis_is_written_the_way_celery_reads_it(monkeypatch, tmp_path):
    monkeypatch.setenv("REDIS_URL", "unix:///run/valkey.sock")
    assert redis_url(tmp_path) == "redis+socket:///run/valkey.sock"
