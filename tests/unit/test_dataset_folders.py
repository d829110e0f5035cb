"""The folder of a Hugging Face dataset: which files make up a split, and that no two splits are mixed."""

import gzip
import json

import pytest

from datasets.errors import SourceUnreadable
from datasets.importers.convert import import_file
from datasets.importers.sources import read_records

SHARDS = ("{}-00000-of-00002", "{}-00001-of-00002")


def folder(tmp_path, files, readme=""):
    """A folder of files; each holds one record with the file's path as its question."""
    for name in files:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        write(path, {"prompt": name, "completion": "b"})
    if readme:
        (tmp_path / "README.md").write_text(f"---\nlicense: mit\n{readme}\n---\n# Data\n")
    return tmp_path


def write(path, record):
    import pyarrow
    from pyarrow import ipc, parquet

    if path.suffix == ".parquet":
        parquet.write_table(pyarrow.Table.from_pylist([record]), path)
    elif path.suffix == ".arrow":
        table = pyarrow.Table.from_pylist([record])
        with ipc.new_stream(path, table.schema) as stream:
            stream.write_table(table)
    else:
        path.write_text(json.dumps(record))


def read(path, split=""):
    return [found.value["prompt"] for found in read_records(path, split)]


def refused(path, split=""):
    with pytest.raises(SourceUnreadable) as error:
        read(path, split)
    return error.value


GSM8K = ("main/train-00000-of-00001.parquet", "main/test-00000-of-00001.parquet",
         "socratic/train-00000-of-00001.parquet", "socratic/test-00000-of-00001.parquet")
CONFIGS = """configs:
- config_name: main
  data_files:
  - split: train
    path: main/train-*
  - split: test
    path: main/test-*
- config_name: socratic{default}
  data_files:
  - split: train
    path: socratic/train-*
  - split: test
    path: [socratic/test-*]"""


@pytest.mark.parametrize("readme", ["", CONFIGS.format(default="")])
def test_configurations_of_several_splits_are_never_mixed_and_each_can_be_chosen(tmp_path, readme):
    path = folder(tmp_path, GSM8K, readme)
    for split in ("", "main", "test"):
        error = refused(path, split)
        assert "main/test, main/train, socratic/test, socratic/train" in error.detail
        assert "--split" in error.hint
    for split in ("main/train", "main/test", "socratic/train", "socratic/test"):
        assert read(path, split) == [f"{split}-00000-of-00001.parquet"]


def test_one_configuration_of_two_splits_is_not_one_split(tmp_path):
    path = folder(tmp_path, GSM8K[:2])
    assert "main/test, main/train" in refused(path).detail
    assert "not main/dev" in refused(path, "main/dev").detail
    assert read(path, "train") == read(path, "main/train") == [GSM8K[0]]


def test_the_default_configuration_is_meant_where_none_is_named(tmp_path):
    path = folder(tmp_path, GSM8K, CONFIGS.format(default="\n  default: true"))
    assert read(path, "test") == ["socratic/test-00000-of-00001.parquet"]
    assert read(path, "main/test") == ["main/test-00000-of-00001.parquet"]
    assert "--split socratic/" in refused(path).hint


@pytest.mark.parametrize(("stated", "files"), [
    ("data_files: part?.jsonl", ["part0.jsonl", "part1.jsonl"]), ("data_files: ['part1.jsonl', 'in/x.jsonl']",
                                                                   ["part1.jsonl", "in/x.jsonl"]),
    ("data_files: '**/x.jsonl'", ["in/deep/x.jsonl", "in/x.jsonl"]), ("data_dir: in/deep", ["in/deep/x.jsonl"]),
    ("data_files: in/**", ["in/deep/x.jsonl", "in/x.jsonl"]),
    ("data_dir: in\n  data_files:\n  - {split: dev, path: '*.jsonl'}", ["in/x.jsonl"])])
def test_what_the_readme_states_is_read_and_nothing_else(tmp_path, stated, files):
    path = folder(tmp_path, ["part0.jsonl", "part1.jsonl", "in/x.jsonl", "in/deep/x.jsonl", "test.jsonl"],
                  f"configs:\n- config_name: all\n  {stated}")
    assert read(path) == files


@pytest.mark.parametrize(("stated", "reason"), [
    ("configs:\n- config_name: a\n  data_files: '../x.jsonl'", "outside the folder"),
    ("configs:\n- config_name: a\n  data_files: hf://datasets/x/y.jsonl", "outside the folder"),
    ("configs:\n- config_name: a\n  data_files: none-*.jsonl", "none-*.jsonl by README.md"),
    ("configs:\n- config_name: a\n  data_files: [{split: train}]", "not data_files"),
    ("configs:\n- main", "not a list of configurations"), ("configs: [", "cannot be read")])
def test_what_the_readme_states_and_cannot_be_read_is_refused(tmp_path, stated, reason):
    error = refused(folder(tmp_path, ["train.jsonl"], stated))
    assert reason in error.detail and error.hint


@pytest.mark.parametrize(("files", "split", "found"), [
    ([f"data/{shard.format(name)}.jsonl" for name in ("train_sft", "test_sft") for shard in SHARDS], "train_sft",
     [f"data/{shard.format('train_sft')}.jsonl" for shard in SHARDS]),
    (["train.jsonl", "dev.jsonl"], "validation", ["dev.jsonl"]),
    (["train.jsonl", "validation.jsonl"], "dev", ["validation.jsonl"]),
    (["train/a.jsonl", "train/b.jsonl", "eval/a.jsonl"], "test", ["eval/a.jsonl"]),
    (["train/a.jsonl", "train/b.jsonl", "eval/a.jsonl"], "train", ["train/a.jsonl", "train/b.jsonl"]),
    (["train-1.jsonl", "train-2.jsonl", ".git/x.jsonl", "dataset_infos.json"], "", ["train-1.jsonl", "train-2.jsonl"]),
    (["en/data/train.jsonl", "en/data/test.jsonl", "fr/data/train.jsonl"], "en/test", ["en/data/test.jsonl"]),
    (["my_test.jsonl", "my_train.jsonl"], "train", ["my_train.jsonl"]),
    (["part-00000-of-00002.csv.jsonl", "part-00001-of-00002.csv.jsonl"], "",
     ["part-00000-of-00002.csv.jsonl", "part-00001-of-00002.csv.jsonl"])])
def test_names_tell_the_splits(tmp_path, files, split, found):
    assert read(folder(tmp_path, files), split) == found


@pytest.mark.parametrize("files", [["train_sft.jsonl", "train_gen.jsonl"], ["stories.jsonl", "sums.jsonl"],
                                   ["eval-easy/a.jsonl", "eval-hard/a.jsonl"]])
def test_files_of_different_names_are_read_as_one_only_where_that_is_asked_for(tmp_path, files):
    path = folder(tmp_path, files)
    error = refused(path)
    assert all(name.split(".")[0].split("/")[0] in error.detail for name in files)
    assert sorted(read(path, error.hint.split("--split ")[1].split(".")[0])) == sorted(files)


def test_what_save_to_disk_wrote_is_read_by_its_own_account(tmp_path):
    for split in ("train_sft", "test_sft"):
        path = folder(tmp_path / split, [f"{shard.format('data')}.arrow" for shard in SHARDS] + ["cache-1.arrow"])
        (path / "state.json").write_text(json.dumps({
            "_data_files": [{"filename": f"{shard.format('data')}.arrow"} for shard in SHARDS], "_split": split}))
        (path / "dataset_info.json").write_text("{}")
        assert read(path) == [f"{shard.format('data')}.arrow" for shard in SHARDS]
    (tmp_path / "dataset_dict.json").write_text('{"splits": ["train_sft", "test_sft"]}')
    assert "test_sft, train_sft" in refused(tmp_path).detail
    assert len(read(tmp_path, "test_sft")) == 2
    report = import_file(tmp_path, tmp_path / "rows.jsonl", split="train_sft")
    assert (report.written, report.refused) == (2, 0)


@pytest.mark.parametrize(("state", "reason"), [
    ({"_data_files": [{"filename": "none.arrow"}]}, "none.arrow, which is not there"), ({}, "no list of _data_files"),
    ({"_data_files": [], "_indices_data_files": [{"filename": "i.arrow"}]}, "index"), ([], "no JSON object"),
    ({"_data_files": []}, "without a data file")])
def test_a_saved_folder_that_lacks_something_is_refused(tmp_path, state, reason):
    (folder(tmp_path, ["data.arrow"]) / "state.json").write_text(json.dumps(state))
    error = refused(tmp_path)
    assert reason in error.detail and error.hint


@pytest.mark.parametrize(("data", "way_out"), [
    (gzip.compress(b'{"prompt": "a", "completion": "b"}'), "gunzip"), (b"\x28\xb5\x2f\xfd....", "unzstd"),
    (b"\xfd7zXZ\x00....", "unxz"), (b"BZh9....", "bunzip2"), (b"PK\x03\x04....", "unzip"),
    (b"version https://git-lfs.github.com/spec/v1\noid sha256:0\n", "git lfs pull")])
def test_a_packed_file_is_refused_with_the_way_out_alone_and_in_a_folder(tmp_path, data, way_out):
    path = folder(tmp_path, ["train.jsonl.gz"]) / "train.jsonl.gz"
    path.write_bytes(data)
    for source in (path, tmp_path):
        assert way_out in refused(source).hint


def test_a_file_has_no_splits(tmp_path):
    path = folder(tmp_path, ["train.jsonl"]) / "train.jsonl"
    assert "no splits" in refused(path, "train").detail


def test_files_of_a_hub_cache_are_read_through_their_links(tmp_path):
    folder(tmp_path / "blobs", ["1.jsonl"])
    (tmp_path / "snapshot").mkdir()
    (tmp_path / "snapshot" / "train.jsonl").symlink_to(tmp_path / "blobs" / "1.jsonl")
    assert read(tmp_path / "snapshot") == ["1.jsonl"]
