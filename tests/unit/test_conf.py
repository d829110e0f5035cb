"""Settings: file, environment, default, in that order of weakness."""

import pytest

from optimize_site.kernel import conf

KEY = "trainer.datasets.max-bytes"

pytestmark = pytest.mark.usefixtures("own_state")


@pytest.mark.requirement("R303")
def test_the_default_upload_limit_is_256_mebibytes():
    assert conf.setting(KEY) == 256 * 1024 * 1024


@pytest.mark.requirement("R126")
def test_a_dry_run_reads_20_000_examples_or_64_mebibytes_unless_the_box_says_otherwise():
    assert conf.setting("trainer.dry-run.max-examples") == 20_000
    assert conf.setting("trainer.dry-run.max-bytes") == 64 * 1024 * 1024


def test_the_settings_file_wins_over_the_default(own_state):
    (own_state / "settings.toml").write_text("[trainer.datasets]\nmax-bytes = 1000\n")
    assert conf.setting(KEY) == 1000


def test_the_environment_wins_over_the_settings_file(own_state, monkeypatch):
    (own_state / "settings.toml").write_text("[trainer.datasets]\nmax-bytes = 1000\n")
    monkeypatch.setenv("OPTIMIZE_TRAINER_DATASETS_MAX_BYTES", "2000")
    assert conf.setting(KEY) == 2000


def test_a_changed_file_is_read_again(own_state):
    import os
    path = own_state / "settings.toml"
    for stamp, size in ((1, 10), (2, 20)):
        path.write_text(f"[trainer.datasets]\nmax-bytes = {size}\n")
        os.utime(path, ns=(stamp, stamp))
        assert conf.setting(KEY) == size


def test_a_name_that_is_no_setting_is_a_mistake_of_ours():
    with pytest.raises(KeyError):
        conf.setting("trainer.nothing")


def test_lists_and_switches_are_read_from_the_environment(monkeypatch):
    monkeypatch.setenv("OPTIMIZE_WEB_ALLOWED_HOSTS", "a.example, b.example")
    monkeypatch.setenv("OPTIMIZE_WEB_BEHIND_TLS_PROXY", "true")
    assert conf.setting("web.allowed-hosts") == ["a.example", "b.example"]
    assert conf.setting("web.behind-tls-proxy") is True
