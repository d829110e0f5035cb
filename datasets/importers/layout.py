"""Which files of a dataset's folder make up a split, as `load_dataset` and `load_from_disk` of Hugging Face see it.

A folder that `save_to_disk` wrote says so itself, then README.md's `configs` do, then names do: the subfolders are
configurations, and `train`, `dev`, `test` and the like in a folder's or a file's name are splits. Nothing that may be
two splits is read as one unless that is asked for.
"""

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

import yaml

from datasets.errors import SourceUnreadable

PARQUET, ARROW, CSV, JSON = (".parquet",), (".arrow",), (".csv", ".tsv"), (".jsonl", ".json", ".ndjson")
DATA = (*PARQUET, *ARROW, *CSV, *JSON)
PACKED = (".gz", ".bz2", ".xz", ".zst", ".zip")
IGNORED = frozenset({"config.json", "dataset_info.json", "dataset_infos.json", "dataset_dict.json", "state.json"})

KEYWORDS = {"train": ("train", "training"), "validation": ("validation", "valid", "dev", "val"),
            "test": ("test", "testing", "eval", "evaluation")}
SPLIT_OF = {keyword: split for split, keywords in KEYWORDS.items() for keyword in keywords}
BESIDE = "[-._ 0-9]"
WORD = {split: re.compile(f"(?:^|{BESIDE})(?:{'|'.join(keywords)})(?:{BESIDE}|$)")
        for split, keywords in KEYWORDS.items()}
SHARD = re.compile(r"(.+?)-\d{5}-of-\d{5}")
NUMBERED = re.compile(r"[-_ ]*\d*$")
FRONT_MATTER = re.compile(r"\A\ufeff?---[ \t]*\r?\n(.*?)^---[ \t]*$", re.DOTALL | re.MULTILINE)
ONE_FILE = "Or import one file by its own path."


@dataclass(frozen=True)
class Split:
    """A split of a configuration: its files in order, and the different names they were told to belong together by.

    `stated` is what the folder says of files that it does not hold.
    """

    config: str
    name: str
    files: tuple[Path, ...]
    found_by: frozenset[str] = frozenset()
    stated: str = ""

    @property
    def label(self) -> str:
        return f"{self.config}/{self.name}" if self.config else self.name


@dataclass(frozen=True)
class Layout:
    """The splits of a folder, and the configuration that is meant where none is named."""

    splits: tuple[Split, ...]
    default: str | None = None


Member = tuple[tuple[str, ...], Path]
"""A file, and the parts of its path below its configuration."""


def data_files(folder: Path, wanted: str = "") -> list[Path]:
    """The files of one split, in order: the one there is, else the one asked for, as SPLIT, CONFIG or CONFIG/SPLIT.

    Raises SourceUnreadable where there is no data, or several splits and none of them was named.
    """
    layout = _saved(folder) or _stated(folder) or _laid_out(folder)
    names = ", ".join(sorted(split.label for split in layout.splits))
    if not names:
        raise SourceUnreadable(f"{folder} holds no data file.", hint=f"Data files end in {', '.join(DATA)}.")
    found = next((reading for reading in _readings(layout, wanted) if reading), [])
    if len(found) != 1:
        raise SourceUnreadable(f"{folder} holds the splits {names}" + ("." if found else f", not {wanted}."),
                               hint=f"Choose one with --split, such as --split {(found or layout.splits)[0].label}.")
    return _files(folder, found[0], is_asked_for=wanted not in ("", found[0].config))


def _readings(layout: Layout, wanted: str) -> Iterator[list[Split]]:
    """What a text may mean, the likeliest first."""
    usual = [split for split in layout.splits if split.config == layout.default] or list(layout.splits)
    if not wanted:
        yield usual
        return
    config, _, name = wanted.rpartition("/")
    alike = SPLIT_OF.get(name, name)
    yield [split for split in layout.splits if split.label == wanted]
    yield [split for split in usual if split.name == wanted]
    yield [split for split in usual if not config and SPLIT_OF.get(split.name, split.name) == alike]
    yield [split for split in layout.splits
           if config in ("", split.config) and SPLIT_OF.get(split.name, split.name) == alike]
    yield [split for split in layout.splits if split.config == wanted]


def _files(folder: Path, split: Split, *, is_asked_for: bool) -> list[Path]:
    if not split.files:
        raise SourceUnreadable(f"{folder} holds no file of the split {split.label}, which is {split.stated}.",
                               hint="Get the whole folder, or choose another split with --split.")
    if len(split.found_by) > 1 and not is_asked_for:
        raise SourceUnreadable(f"{folder} holds data of several names, which may be several splits: "
                               f"{', '.join(sorted(split.found_by))}.",
                               hint=f"Read them all as one with --split {split.label}. {ONE_FILE}")
    return list(split.files)


# What `save_to_disk` wrote -------------------------------------------------------------------------------------------


def _saved(folder: Path) -> Layout | None:
    if (folder / "dataset_dict.json").is_file():
        names = _json(folder / "dataset_dict.json", "splits")
        return Layout(tuple(_saved_split(folder / name, name) for name in map(str, names)))
    if (folder / "state.json").is_file():
        return Layout((_saved_split(folder, ""),))
    return None


def _saved_split(folder: Path, name: str) -> Split:
    state = folder / "state.json"
    if not state.is_file():
        return Split("", name, (), stated="stated by dataset_dict.json")
    files = [folder / str(file.get("filename")) for file in _json(state, "_data_files") if isinstance(file, dict)]
    if _json(state, "_indices_data_files", []):
        raise SourceUnreadable(f"{folder} was saved with an index of its rows, as old versions of datasets did.",
                               hint="Save it again: load_from_disk(FOLDER).flatten_indices().save_to_disk(NEW).")
    lacking = next((file for file in files if not file.is_file()), None)
    if lacking is not None:
        raise SourceUnreadable(f"{state} names {lacking.name}, which is not there.", hint="Get the whole folder.")
    return Split("", name or str(_json(state, "_split", "") or "train"), tuple(files), stated="without a data file")


def _json(file: Path, key: str, default: Any = None) -> Any:
    """The value of a key of a JSON file. Raises SourceUnreadable."""
    try:
        value = json.loads(file.read_bytes()).get(key)
    except (ValueError, AttributeError) as error:
        raise SourceUnreadable(f"{file} is no JSON object.", hint=ONE_FILE) from error
    if default is None and not isinstance(value, list):
        raise SourceUnreadable(f"{file} has no list of {key}.", hint=ONE_FILE)
    return value


# What README.md states -----------------------------------------------------------------------------------------------


def _stated(folder: Path) -> Layout | None:
    configs = _configs(folder / "README.md")
    if not configs:
        return None
    names = [str(config["config_name"]) for config in configs]
    splits = tuple(split for name, config in zip(names, configs, strict=True)
                   for split in _stated_splits(folder, name, config))
    defaults = [name for name, config in zip(names, configs, strict=True) if config.get("default") or name == "default"]
    return Layout(splits, defaults[0] if len(defaults) == 1 else None)


def _configs(readme: Path) -> list[dict[str, Any]]:
    front = FRONT_MATTER.match(readme.read_text("utf-8", errors="replace")) if readme.is_file() else None
    try:
        card = yaml.safe_load(front[1]) if front else None
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise SourceUnreadable(f"The YAML at the head of {readme} cannot be read: {str(error).splitlines()[0]}.",
                               hint=f"Mend it. {ONE_FILE}") from error
    configs = card.get("configs") if isinstance(card, dict) else None
    if configs and not (isinstance(configs, list) and all(isinstance(config, dict) and "config_name" in config
                                                          for config in configs)):
        raise _misstated(readme, "a list of configurations, each with a config_name")
    return configs or []


def _misstated(readme: Path, wanted: str) -> SourceUnreadable:
    return SourceUnreadable(f"The configs at the head of {readme} are not {wanted}.", hint=f"Mend them. {ONE_FILE}")


def _stated_splits(folder: Path, name: str, config: dict[str, Any]) -> Iterator[Split]:
    base = folder / _inside(folder, str(config.get("data_dir") or "."))
    if config.get("data_files") is None:
        yield from _inferred(name, [(file.relative_to(base).parts, file) for file in _data_below(base)])
        return
    for split, patterns in _patterns(folder, config["data_files"]).items():
        files = dict.fromkeys(file for pattern in patterns for file in _matching(folder, base, pattern))
        yield Split(name, split, tuple(files), stated=f"{', '.join(patterns)} by README.md")


def _patterns(folder: Path, stated: Any) -> dict[str, list[str]]:
    """The patterns of each split; files of no stated split are of `train`."""
    listed = stated if isinstance(stated, list) else [stated]
    splits: dict[str, list[str]] = {}
    for item in listed:
        split, paths = (item.get("split"), item.get("path")) if isinstance(item, dict) else ("train", item)
        paths = paths if isinstance(paths, list) else [paths]
        if split is None or not all(isinstance(path, str) for path in paths):
            raise _misstated(folder / "README.md", "data_files of paths, or of a split and its path each")
        splits.setdefault(str(split), []).extend(paths)
    return splits


def _matching(folder: Path, base: Path, pattern: str) -> list[Path]:
    """The data files that a pattern means: `*` within a folder, `**` at any depth."""
    pattern = _inside(folder, pattern)
    try:
        found = base.glob(f"{pattern}/*" if pattern.endswith("**") else pattern)
        return sorted(file for file in found if _is_data(base, file))
    except ValueError as error:
        raise SourceUnreadable(f"README.md states the files {pattern}, which is no pattern that is read: {error}.",
                               hint=ONE_FILE) from error


def _inside(folder: Path, stated: str) -> str:
    path = PurePosixPath(stated)
    if "://" in stated or path.is_absolute() or ".." in path.parts:
        raise SourceUnreadable(f"README.md of {folder} states {stated}, which lies outside the folder.",
                               hint=f"Get it and put it into the folder. {ONE_FILE}")
    return stated


# What names tell -----------------------------------------------------------------------------------------------------


def _laid_out(folder: Path) -> Layout:
    configs: dict[str, list[Member]] = {}
    for file in _data_below(folder):
        *above, name = (part for part in file.relative_to(folder).parts if part != "data")
        depth = next((place for place, part in enumerate(above) if _splits_named(part)), len(above))
        configs.setdefault("/".join(above[:depth]), []).append(((*above[depth:], name), file))
    return Layout(tuple(split for config, members in sorted(configs.items()) for split in _inferred(config, members)))


def _data_below(folder: Path) -> list[Path]:
    return [file for file in sorted(folder.rglob("*")) if _is_data(folder, file)]


def _is_data(folder: Path, file: Path) -> bool:
    parts = file.relative_to(folder).parts
    name = parts[-1].lower() if parts else ""
    name = next((name.removesuffix(suffix) for suffix in PACKED if name.endswith(suffix)), name)
    return (name.endswith(DATA) and name not in IGNORED and file.is_file()
            and not any(part.startswith((".", "__", "cache-")) for part in parts))


def _inferred(config: str, members: Sequence[Member]) -> Iterator[Split]:
    """The splits that names tell: shards name theirs, then folders do, then files; all are `train` where none does."""
    direct = [member for member in members if len(member[0]) == 1]
    ways = (_by_file(direct) if any(SHARD.match(parts[0]) for parts, _ in direct) else {}, _by_folder(members),
            _by_file(members), {"train": [("/".join(_plain(parts)), file) for parts, file in members]})
    for name, found in (next((way for way in ways if way), {}) if members else {}).items():
        yield Split(config, name, tuple(file for _, file in found), frozenset(told for told, _ in found))


def _by_folder(members: Sequence[Member]) -> dict[str, list[tuple[str, Path]]]:
    found: dict[str, list[tuple[str, Path]]] = {}
    for parts, file in members:
        for depth, part in enumerate(parts[:-1], 1):
            for split in _splits_named(part):
                found.setdefault(split, []).append(("/".join(parts[:depth]), file))
    return found


def _by_file(members: Sequence[Member]) -> dict[str, list[tuple[str, Path]]]:
    found: dict[str, list[tuple[str, Path]]] = {}
    for parts, file in members:
        shard = SHARD.match(parts[-1])
        for split in [shard[1]] if shard else _splits_named(parts[-1]):
            found.setdefault(split, []).append(("/".join(_plain(parts)), file))
    return found


def _splits_named(name: str) -> list[str]:
    return [split for split, word in WORD.items() if word.search(name)]


def _plain(parts: tuple[str, ...]) -> tuple[str, ...]:
    """A path without the number of a shard or a part, so that files of one split are called alike."""
    shard = SHARD.match(parts[-1])
    return (*parts[:-1], shard[1] if shard else NUMBERED.sub("", parts[-1].split(".")[0]))
