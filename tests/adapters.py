"""Small LoRA adapters as files, made without any training library."""

import json
import struct
from pathlib import Path
from typing import Any

MODULE = "model.layers.0.self_attn.q_proj"


def adapter_config(**changes: Any) -> bytes:
    """An `adapter_config.json`."""
    found = {"peft_type": "LORA", "r": 2, "lora_alpha": 4, "target_modules": ["q_proj"], "bias": "none",
             "base_model_name_or_path": "acme/tiny"}
    return json.dumps(found | changes).encode()


def lora_tensors(module: str = MODULE, *, rank: int = 2, inputs: int = 6, outputs: int = 4) -> dict[str, Any]:
    """One module's two matrices, as name to (shape, numbers)."""
    return {f"base_model.model.{module}.lora_A.weight": ((rank, inputs), [0.5] * (rank * inputs)),
            f"base_model.model.{module}.lora_B.weight": ((outputs, rank), [0.25] * (outputs * rank))}


def safetensors(tensors: dict[str, Any]) -> bytes:
    """A safetensors file of F32 tensors."""
    header, body = {}, b""
    for name, (shape, numbers) in tensors.items():
        data = struct.pack(f"<{len(numbers)}f", *numbers)
        header[name] = {"dtype": "F32", "shape": list(shape), "data_offsets": [len(body), len(body) + len(data)]}
        body += data
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + body


def adapter_folder(place: Path, **changes: Any) -> Path:
    """A folder with the two files of an adapter."""
    place.mkdir(parents=True, exist_ok=True)
    (place / "adapter_config.json").write_bytes(adapter_config(**changes))
    (place / "adapter_model.safetensors").write_bytes(safetensors(lora_tensors()))
    return place
