"""The tiny model as a GGUF file inside a wheel, the way a package may carry a base model."""

import json
import zipfile
from pathlib import Path

import gguf
import torch
from transformers import AutoModelForCausalLM

NAMES = {
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
    "input_layernorm": "attn_norm",
    "post_attention_layernorm": "ffn_norm",
}


def make_wheel(base: Path, folder: Path, *, package: str = "tiny-model", version: str = "1.0") -> Path:
    """A wheel that holds the model of `base` as `tiny.gguf`."""
    folder.mkdir(parents=True, exist_ok=True)
    make_gguf(base, folder / "tiny.gguf")
    name = package.replace("-", "_")
    wheel = folder / f"{name}-{version}-py3-none-any.whl"
    info = f"{name}-{version}.dist-info"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.write(folder / "tiny.gguf", f"{name}/tiny.gguf")
        archive.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {package}\nVersion: {version}\n")
        archive.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr(f"{info}/RECORD", "")
    (folder / "tiny.gguf").unlink()
    return wheel


def make_gguf(base: Path, path: Path) -> None:
    """Weights as 32-bit floats, vocabulary and template, all as llama.cpp names them."""
    model = AutoModelForCausalLM.from_pretrained(base, dtype=torch.float32)
    config = model.config
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_name("tiny")
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_block_count(config.num_hidden_layers)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_vocab_size(config.vocab_size)
    _add_tokenizer(writer, base)
    for name, tensor in model.state_dict().items():
        if name != "lm_head.weight":
            writer.add_tensor(_name(name), _permuted(name, tensor, config).numpy())
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def _add_tokenizer(writer: gguf.GGUFWriter, base: Path) -> None:
    body = json.loads((base / "tokenizer.json").read_text())
    vocabulary = body["model"]["vocab"]
    special = {token["content"] for token in body["added_tokens"]}
    tokens = sorted(vocabulary, key=vocabulary.__getitem__)
    merges = [merge if isinstance(merge, str) else " ".join(merge) for merge in body["model"]["merges"]]
    kinds = [gguf.TokenType.CONTROL if token in special else gguf.TokenType.NORMAL for token in tokens]
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("default")
    writer.add_token_list(tokens)
    writer.add_token_types(kinds)
    writer.add_token_merges(merges)
    writer.add_bos_token_id(vocabulary["<|im_start|>"])
    writer.add_eos_token_id(vocabulary["<|im_end|>"])
    writer.add_unk_token_id(vocabulary["<|endoftext|>"])
    writer.add_pad_token_id(vocabulary["<|im_end|>"])
    writer.add_chat_template((base / "chat_template.jinja").read_text())


def _name(name: str) -> str:
    if name == "model.embed_tokens.weight":
        return "token_embd.weight"
    if name == "model.norm.weight":
        return "output_norm.weight"
    _, _, layer, rest = name.split(".", 3)
    module, _, kind = rest.rpartition(".")
    return f"blk.{layer}.{NAMES[module]}.{kind}"


def _permuted(name: str, tensor: torch.Tensor, config) -> torch.Tensor:
    """llama.cpp interleaves the rotary halves of queries and keys."""
    heads = {"q_proj": config.num_attention_heads, "k_proj": config.num_key_value_heads}
    count = next((heads[part] for part in name.split(".") if part in heads), None)
    if count is None:
        return tensor
    rows, columns = tensor.shape
    return tensor.view(count, 2, rows // count // 2, columns).transpose(1, 2).reshape(rows, columns).contiguous()
