"""A run on the operator's Grafana dashboard: the link of the command, the route, the page and the admin."""

from datetime import UTC, datetime, timedelta
from urllib.parse import parse_qs, urlsplit

import pytest

from optimize_site.kernel import accounts
from optimize_site.kernel.auth import LOCAL, LOCAL_SECRET
from optimize_site.kernel.models import Attempt
from runs.management.commands.runs import Command
from runs.models import Run
from runs.operations import advance_run
from tests.factories import make_device, make_run
from tests.playing import STARTED, claim, reread, say

pytestmark = pytest.mark.django_db
DASHBOARD = "https://grafana.example/d/runs/optimize?orgId=7&var-host=a&var-host=b&from=now-1h&kiosk"
BEGAN = datetime(2026, 12, 1, 4, 0, tzinfo=UTC)
MILLIS = int(BEGAN.timestamp() * 1000)


@pytest.fixture(autouse=True)
def state(tmp_path, monkeypatch):
    monkeypatch.setenv("OPTIMIZE_HOME", str(tmp_path / "home"))


@pytest.fixture
def dashboard(monkeypatch):
    monkeypatch.setenv("OPTIMIZE_WEB_GRAFANA_DASHBOARD", DASHBOARD)


@pytest.fixture
def run(db):
    """A run whose first attempt took ten minutes of the hour between its start and its end."""
    make_device()
    run = make_run()
    advance_run(run.pk)
    say(run, claim(run), STARTED)
    Attempt.objects.update(started_at=BEGAN, ended_at=BEGAN + timedelta(minutes=10))
    Run.objects.update(created_at=BEGAN - timedelta(hours=3), ended_at=BEGAN + timedelta(hours=1))
    return reread(run)


@pytest.fixture
def ask(capfd):
    def command(*words):
        status = Command().run(["grafana", *words]) or 0
        return status, *capfd.readouterr()

    return command


def test_the_link_leads_to_the_dashboard_over_the_run_from_its_start_to_its_end(run, dashboard, ask):
    status, out, err = ask(run.pk)
    address = urlsplit(out.strip())
    assert status == 0
    assert address._replace(query="").geturl() == "https://grafana.example/d/runs/optimize"
    assert address.query == (f"orgId=7&var-host=a&var-host=b&kiosk&from={MILLIS}&to={MILLIS + 3_600_000}"
                             f"&var-run={run.pk}")
    assert "does not expire" in err


def test_an_attempt_has_its_own_time_and_one_that_never_was_is_refused(run, dashboard, ask):
    query = parse_qs(urlsplit(ask(run.pk, "--attempt", "1")[1].strip()).query)
    assert (query["from"], query["to"], query["var-attempt"]) == ([str(MILLIS)], [str(MILLIS + 600_000)], ["1"])
    status, _, err = ask(run.pk, "--attempt", "2")
    assert status == 4
    assert f"The run {run.pk[:12]} has no attempt 2; it has had 1." in err


def test_a_run_that_has_not_begun_is_shown_from_its_submission_to_now(dashboard, client):
    run = make_run()
    headers = {"Authorization": f"Bearer {LOCAL_SECRET}"}
    found = client.get(f"/v1/training/runs/{run.pk}/grafana", headers=headers).json()
    begin, end = (datetime.fromisoformat(found[name]) for name in ("from", "to"))
    assert abs(run.created_at - begin) < timedelta(milliseconds=1) and begin < end
    assert (found["isDashboard"], found["expiresAt"], found["attempt"]) == (True, None, None)


def test_without_a_dashboard_the_link_is_the_runs_own_page(run, ask, client):
    status, out, err = ask(run.pk)
    assert (status, urlsplit(out.strip()).path) == (0, f"/runs/{run.pk}")
    assert "web.grafana-dashboard" in err
    client.force_login(accounts.create_user("an-operator", "operator", actor=LOCAL)[0])
    assert ">Grafana</a>" not in client.get(f"/runs/{run.pk}").content.decode()
    assert "No dashboard is set." in client.get(f"/admin/runs/run/{run.pk}/change/").content.decode()


def test_the_page_and_the_admin_lead_to_the_dashboard(run, dashboard, client):
    client.force_login(accounts.create_user("an-operator", "operator", actor=LOCAL)[0])
    for address in (f"/runs/{run.pk}", f"/admin/runs/run/{run.pk}/change/"):
        assert f"from={MILLIS}&amp;to={MILLIS + 3_600_000}&amp;var-run={run.pk}" in client.get(address).content.decode()


@pytest.mark.parametrize("address", ["grafana.example/d/runs", "javascript:alert(1)", "https:///d", "https://[d"])
def test_a_setting_that_is_no_address_is_refused_and_no_page_leads_there(run, address, ask, client, monkeypatch):
    monkeypatch.setenv("OPTIMIZE_WEB_GRAFANA_DASHBOARD", address)
    status, _, err = ask(run.pk)
    assert status == 3
    assert "is no address of a dashboard" in err
    client.force_login(accounts.create_user("an-operator", "operator", actor=LOCAL)[0])
    assert ">Grafana</a>" not in client.get(f"/runs/{run.pk}").content.decode()
