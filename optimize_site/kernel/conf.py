"""The state folder and the box's settings file: one place that says where things are and what was chosen."""

import os
import tomllib
from functools import lru_cache
from pathlib import Path
from typing import Any

DEFAULTS: dict[str, Any] = {
    "trainer.datasets.max-bytes": 256 * 1024 * 1024,
    "trainer.analyses.wait-minutes": 30,
    "trainer.base-model-catalog.strict-envelopes": False,
    "trainer.base-models.cache-at-selection": True,
    "trainer.jobs.max-attempts": 5,
    "trainer.jobs.unwatched-seconds": 600,
    "trainer.jobs.stalled-seconds": 1800.0,
    "trainer.jobs.strict-compute": False,
    "trainer.rollouts.sampler": "auto",
    "trainer.rollouts.vllm-python": "",
    "trainer.rollouts.memory-share": 0.0,
    "trainer.rollouts.failed-updates": 5,
    "trainer.evaluations.max-new-tokens": 128,
    "trainer.graders.seconds": 30.0,
    "trainer.graders.memory-bytes": 1024**3,
    "trainer.graders.http-hosts": [],
    "trainer.graders.http-ca-file": "",
    "trainer.graders.http-headers": [],
    "trainer.bundles.allow-unsandboxed": False,
    "trainer.judges.seconds": 300.0,
    "trainer.judges.max-new-tokens": 192,
    "trainer.cost.rate-per-device-hour": 0.0,
    "trainer.disk.warn-below-bytes": 5 * 1024**3,
    "trainer.runs.allowed-engines": ["trl"],
    "trainer.dry-run.max-examples": 20_000,
    "trainer.dry-run.max-bytes": 64 * 1024 * 1024,
    "registry.bundles.max-bytes": 64 * 1024 * 1024,
    "registry.bundles.max-unpacked-bytes": 512 * 1024 * 1024,
    "registry.adapters.max-bytes": 2 * 1024**3,
    "registry.garbage.grace-hours": 24.0,
    "web.bind": "127.0.0.1:9001",
    "web.grafana-dashboard": "",
    "web.allowed-hosts": ["127.0.0.1", "localhost", "[::1]"],
    "web.behind-tls-proxy": False,
    "web.trusted-origins": [],
}


def home() -> Path:
    """The state folder: OPTIMIZE_HOME, else a system folder for root, else the user's data folder."""
    stated = os.environ.get("OPTIMIZE_HOME")
    if stated:
        return Path(stated).absolute()
    if os.geteuid() == 0:
        return Path("/var/lib/optimize")
    base = os.environ.get("XDG_DATA_HOME") or str(Path.home() / ".local" / "share")
    return Path(base) / "optimize"


def environment_name(key: str) -> str:
    """The variable that overrides a setting: `trainer.datasets.max-bytes` is OPTIMIZE_TRAINER_DATASETS_MAX_BYTES."""
    return "OPTIMIZE_" + key.upper().replace(".", "_").replace("-", "_")


def setting(key: str) -> Any:
    """The value of one setting: environment, then `<home>/settings.toml`, then the default.

    Raises KeyError for a name that is no setting.
    """
    default = DEFAULTS[key]
    stated = os.environ.get(environment_name(key))
    if stated is not None:
        return _parse(stated, default)
    return _from_file(key, default)


def _from_file(key: str, default: Any) -> Any:
    path = home() / "settings.toml"
    try:
        stamp = path.stat().st_mtime_ns
    except OSError:
        return default
    node: Any = _read(path, stamp)
    for part in key.split("."):
        if not isinstance(node, dict) or part not in node:
            return default
        node = node[part]
    return node


@lru_cache(maxsize=4)
def _read(path: Path, stamp: int) -> dict[str, Any]:
    return tomllib.loads(path.read_text())


def _parse(text: str, default: Any) -> Any:
    if isinstance(default, bool):
        return text.strip().lower() in {"1", "true", "yes", "on"}
    if isinstance(default, list):
        return [part.strip() for part in text.split(",") if part.strip()]
    if isinstance(default, str):
        return text
    return type(default)(float(text))
