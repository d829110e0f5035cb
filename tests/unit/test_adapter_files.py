"""Adapters from elsewhere: each way in which a file can be another thing than it says."""

import io
import json
import math
import struct

import pytest

from registry.adapter_files import Tensor, check_weights, is_finite, read_config, read_header
from registry.errors import AdapterRefused
from tests.adapters import adapter_config, lora_tensors, safetensors

BASE = {"model.layers.0.self_attn.q_proj": (4, 6), "model.layers.0.self_attn.v_proj": (4, 6)}


def refused(data, match, base=BASE, max_rank=16, tmp=None, **config):
    path = tmp / "weights"
    path.write_bytes(data)
    with pytest.raises(AdapterRefused, match=match):
        check_weights(path, read_config(adapter_config(**config), max_rank=max_rank), max_rank=max_rank, base=base)


def test_a_plain_lora_passes(tmp_path):
    (tmp_path / "w").write_bytes(safetensors(lora_tensors()))
    config = read_config(adapter_config(), max_rank=16)
    assert (config.rank, config.target_modules) == (2, ("q_proj",))
    check_weights(tmp_path / "w", config, max_rank=16, base=BASE)
    check_weights(tmp_path / "w", config, max_rank=16, base=None)


@pytest.mark.parametrize("data", [b"PK\x03\x04" + bytes(60), b"\x80\x02}q\x00." + bytes(60)])
def test_a_pickle_by_another_name_is_refused(tmp_path, data):
    refused(data, "a pickle by another name", tmp=tmp_path)


@pytest.mark.parametrize("data", [
    struct.pack("<Q", 2 << 30) + b"{}", struct.pack("<Q", 1 << 63) + bytes(100), b"", b"1234", bytes(100),
    struct.pack("<Q", 4) + b"null", struct.pack("<Q", 2) + b"{}", struct.pack("<Q", 4) + b"{\"a\"",
    struct.pack("<Q", 200_000) + b"[" * 200_000, struct.pack("<Q", 14) + b'{"a":1,"a":2} ',
    struct.pack("<Q", 8) + b'{"a":[]}'])
def test_a_header_that_is_none_is_refused(tmp_path, data):
    refused(data, ".", tmp=tmp_path)


def damaged(change):
    tensors = lora_tensors()
    data = safetensors(tensors)
    length = int.from_bytes(data[:8], "little")
    header = json.loads(data[8:8 + length])
    change(header)
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data[8 + length:]


@pytest.mark.parametrize(("place", "match"), [([0, 48], "overlap|ends at"), ([1 << 40, (1 << 40) + 32], "leave a gap"),
                                              ([-1, 31], "no proper"), ([32, 0], "takes 32 bytes")])
def test_tensors_that_overlap_or_leave_the_file_are_refused(tmp_path, place, match):
    def change(header):
        name = next(name for name in header if name.endswith("lora_B.weight"))
        header[name]["data_offsets"] = place
        if place == [0, 48]:
            header[name]["shape"] = [4, 3]

    refused(damaged(change), match, tmp=tmp_path)


def test_bytes_behind_the_last_tensor_are_refused(tmp_path):
    refused(safetensors(lora_tensors()) + b"x", "the file has", tmp=tmp_path)


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_one_number_that_is_not_finite_is_found_among_many(tmp_path, bad):
    tensors = lora_tensors(inputs=70_000)
    name = next(iter(tensors))
    tensors[name][1][131_071] = bad
    refused(safetensors(tensors), "NaN or Infinity", base=None, tmp=tmp_path)


@pytest.mark.parametrize(("dtype", "code"), [("F16", "e"), ("F32", "f")])
def test_every_finite_number_passes_the_scan(dtype, code):
    numbers = [0.0, -0.0, 1.0, -1.5, 65504.0, -65504.0, 6e-8]
    data = struct.pack(f"<{len(numbers)}{code}", *numbers)
    assert is_finite(io.BytesIO(data), Tensor(dtype, (7,), 0, len(data)))
    for bad in (math.nan, math.inf):
        mixed = struct.pack(f"<4{code}", 1.0, -2.0, bad, 0.0)
        assert not is_finite(io.BytesIO(mixed), Tensor(dtype, (4,), 0, len(mixed)))


def test_bfloat16_is_scanned_by_its_own_exponent():
    for half, finite in ((0x7F80, False), (0xFFC0, False), (0x7F7F, True), (0xFF7F, True), (0x7C00, True), (0, True)):
        data = struct.pack("<3H", 0x3F80, half, 0x3F80)
        assert is_finite(io.BytesIO(data), Tensor("BF16", (3,), 0, 6)) is finite


@pytest.mark.parametrize(("changes", "match"), [
    ({"r": 64}, "rank is 64; endpoints here load 1 to 16"), ({"r": 0}, "rank is 0"), ({"r": True}, "rank is True"),
    ({"rank_pattern": {"q_proj": 99}}, "rank is 99"), ({"peft_type": "LOHA"}, "peft_type is 'LOHA'"),
    ({"use_dora": True}, "use_dora"), ({"modules_to_save": ["lm_head"]}, "modules_to_save"), ({"bias": "all"}, "bias"),
    ({"target_modules": None}, "names no target_modules"), ({"target_modules": [1]}, "names no target_modules")])
def test_more_than_a_plain_lora_within_the_limit_is_refused(changes, match):
    with pytest.raises(AdapterRefused, match=match):
        read_config(adapter_config(**changes), max_rank=16)


@pytest.mark.parametrize("data", [b"", b"[]", b"{", b"\xff", b"[" * 100_000, b'{"r": 1, "r": 2}', b" " * (2 << 20)])
def test_a_configuration_that_is_no_object_is_refused(data):
    with pytest.raises(AdapterRefused):
        read_config(data, max_rank=16)


def test_weights_of_another_rank_than_the_configuration_says_are_refused(tmp_path):
    refused(safetensors(lora_tensors(rank=3)), "says rank 2", tmp=tmp_path)


def test_modules_that_the_base_model_or_the_configuration_does_not_know_are_refused(tmp_path):
    other = lora_tensors(module="model.layers.9.self_attn.q_proj")
    refused(safetensors(other), "The base model has no module", tmp=tmp_path)
    refused(safetensors(lora_tensors(module="model.layers.0.self_attn.v_proj")), "none of the target_modules",
            tmp=tmp_path)
    refused(safetensors(lora_tensors(inputs=7)), r"\[4, 6\] in the base model", tmp=tmp_path)


def test_half_a_pair_and_foreign_tensors_are_refused(tmp_path):
    tensors = lora_tensors()
    half = dict(list(tensors.items())[:1])
    refused(safetensors(half), "not its counterpart", tmp=tmp_path)
    refused(safetensors({"lm_head.weight": ((2, 2), [0.0] * 4)}), "no part of a LoRA", tmp=tmp_path)


def test_a_checkpoint_may_word_the_way_to_its_layers_otherwise(tmp_path):
    (tmp_path / "w").write_bytes(safetensors(lora_tensors(module="model.language_model.layers.0.self_attn.q_proj")))
    check_weights(tmp_path / "w", read_config(adapter_config(), max_rank=16), max_rank=16,
                  base={"language_model.model.layers.0.self_attn.q_proj": (4, 6)})


def test_the_header_of_a_whole_file_is_read():
    found = read_header(io.BytesIO(safetensors(lora_tensors())))
    assert [tensor.shape for tensor in found.values()] == [(2, 6), (4, 2)]
