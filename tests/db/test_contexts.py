"""`--context`: the same commands against another box, over HTTP, with a token."""

import json

import pytest

from optimize_site.kernel import accounts, client
from optimize_site.kernel.auth import LOCAL
from optimize_site.kernel.management.commands import capacity, contexts, info, tokens

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("own_state")]


@pytest.fixture
def other_box(live_server, settings):
    """Another box: this test's live server, known as the context `there` under a stored token."""
    settings.DATABASES["default"]["CONN_MAX_AGE"] = 0
    accounts.create_user("ana", "viewer", actor=LOCAL)
    _, text = accounts.issue_token("laptop", "ana", actor=LOCAL)
    contexts.write_contexts({"there": {"url": live_server.url, "token": text}})
    return text


def ask(command, argv, capsys):
    status = command.Command().run(argv)
    captured = capsys.readouterr()
    return status, captured.out, captured.err


@pytest.mark.requirement("R377")
def test_a_context_picks_another_box_and_its_login(other_box, capsys):
    status, out, _ = ask(info, ["--context", "there", "-o", "json"], capsys)
    assert (status, json.loads(out)["backend"]) == (0, "local")


@pytest.mark.requirement("R377")
def test_the_environment_picks_a_context_too(other_box, capsys, monkeypatch):
    monkeypatch.setenv("AKKA_CONTEXT", "there")
    status, out, _ = ask(tokens, ["list", "-o", "json"], capsys)
    assert (status, [token["user"] for token in json.loads(out)["tokens"]]) == (0, ["ana"])


@pytest.mark.requirement("R378")
def test_an_unknown_context_is_refused_with_the_known_ones(other_box, capsys):
    status, _, err = ask(info, ["--context", "nowhere"], capsys)
    assert status == 2
    assert "known contexts: there" in err


@pytest.mark.requirement("R379")
def test_a_token_in_the_environment_wins_over_the_stored_login(other_box, monkeypatch):
    monkeypatch.setenv("AKKA_ACCESS_TOKEN", "opt_of_somebody_else")
    assert client.client_for("there").http.headers["Authorization"] == "Bearer opt_of_somebody_else"


def test_a_viewer_s_refusal_over_http_reads_like_the_one_here(other_box, capsys):
    status, _, err = ask(tokens, ["create", "x", "--user", "admin", "--context", "there"], capsys)
    assert status in {3, 4}
    assert err


def test_a_box_that_does_not_answer_is_said_so(capsys):
    contexts.write_contexts({"gone": {"url": "http://127.0.0.1:9", "token": "t"}})
    status, _, err = ask(capacity, ["--context", "gone"], capsys)
    assert status == 1
    assert "http://127.0.0.1:9 does not answer" in err


@pytest.mark.requirement("R204")
def test_capacity_shows_the_largest_claim_of_each_pool(capsys):
    from optimize_site.kernel.start import sync_devices
    from tests.factories import make_device_info

    sync_devices([make_device_info("GPU-1", profile="h200"), make_device_info("GPU-2", profile="h200")])
    status, out, _ = ask(capacity, ["-o", "json"], capsys)
    pool = json.loads(out)["pools"][0]
    assert (status, pool["pool"], pool["maxClaim"]) == (0, "h200", 2)
    assert "MAX CLAIM" in ask(capacity, [], capsys)[1]


@pytest.mark.requirement("R203")
def test_info_names_the_reinforcement_engine(capsys):
    assert "Engine            trl" in ask(info, [], capsys)[1]


def test_one_usage_error_is_one_sentence_and_status_2(capsys):
    status, _, err = ask(tokens, ["creat"], capsys)
    assert status == 2
    assert "--help" in err


def test_jq_and_fields_narrow_the_json(capsys):
    assert ask(info, ["--jq", ".backend"], capsys)[1] == "local\n"
    assert json.loads(ask(info, ["--json", "backend"], capsys)[1]) == {"backend": "local"}


def test_what_the_box_logs_while_a_command_runs_goes_to_its_file_not_between_its_lines(tmp_path, capsys):
    status, _, err = ask(tokens, ["revoke", "nobody-s"], capsys)
    assert status == 4
    assert "{" not in err
    assert (tmp_path / "logs" / "commands.log").exists()
