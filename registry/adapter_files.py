"""Whether the files of an adapter from elsewhere are what they say: a LoRA in safetensors, over the right base.

Nothing is unpickled and no weight is loaded: a safetensors file is judged by its header, and its numbers are looked
through for ones that are not finite.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import IO, Any

from registry.errors import AdapterRefused

CONFIG, WEIGHTS = "adapter_config.json", "adapter_model.safetensors"
PICKLES = (".bin", ".pt", ".pth", ".pkl", ".pickle", ".ckpt", ".joblib", ".npy", ".npz")
MAX_CONFIG_BYTES, MAX_HEADER_BYTES, MAX_TENSORS = 1 << 20, 16 << 20, 100_000
SCAN_BYTES = 1 << 18
WIDTHS = {"F64": 8, "I64": 8, "U64": 8, "F32": 4, "I32": 4, "U32": 4, "F16": 2, "BF16": 2, "I16": 2, "U16": 2, "I8": 1,
          "U8": 1, "BOOL": 1, "F8_E4M3": 1, "F8_E5M2": 1}
EXPONENTS = {"F32": 0x7F800000, "F16": 0x7C00, "BF16": 0x7F80}
"""The types an adapter may be in, and the bits that are all set in a number that is not finite."""
PREFIX, A, B = "base_model.model.", ".lora_A.weight", ".lora_B.weight"
NOT_PLAIN = ("use_dora", "modules_to_save", "layer_replication", "megatron_config", "trainable_token_indices",
             "target_parameters", "alora_invocation_tokens", "use_qalora", "arrow_config", "lora_bias")
"""Settings of an adapter that no endpoint here serves; each must be absent, null, false or empty."""


@dataclass(frozen=True)
class AdapterConfig:
    """What an `adapter_config.json` says."""

    rank: int
    has_rank_pattern: bool
    target_modules: tuple[str, ...]
    is_pattern: bool
    base_model: str
    revision: str


@dataclass(frozen=True)
class Tensor:
    """One entry of a safetensors header; `begin` and `end` are places in the file."""

    dtype: str
    shape: tuple[int, ...]
    begin: int
    end: int


def read_config(data: bytes, *, max_rank: int) -> AdapterConfig:
    """The configuration of a plain LoRA. Raises AdapterRefused."""
    found = _json_object(data, CONFIG, MAX_CONFIG_BYTES)
    if str(found.get("peft_type", "")).upper() != "LORA":
        raise AdapterRefused(f"peft_type is {found.get('peft_type')!r}; only LORA adapters are kept.")
    for name in NOT_PLAIN:
        if found.get(name):
            raise AdapterRefused(f"{CONFIG} sets {name}, which is more than a plain LoRA.",
                                 hint="Merge it into an adapter without, or train one here.")
    if found.get("bias") not in (None, "none"):
        raise AdapterRefused(f"{CONFIG} sets bias to {found['bias']!r}; an adapter here changes no bias.")
    patterns = found.get("rank_pattern") or {}
    ranks = [found.get("r"), *(patterns.values() if isinstance(patterns, dict) else [None])]
    for rank in ranks:
        if isinstance(rank, bool) or not isinstance(rank, int) or not 1 <= rank <= max_rank:
            raise AdapterRefused(f"The adapter's rank is {rank!r}; endpoints here load 1 to {max_rank}.",
                                 hint=f"Train it at a rank of at most {max_rank}.")
    targets = found.get("target_modules")
    names = [targets] if isinstance(targets, str) else targets
    if not isinstance(names, list) or not names or not all(isinstance(name, str) and name for name in names):
        raise AdapterRefused(f"{CONFIG} names no target_modules.")
    return AdapterConfig(int(found["r"]), bool(patterns), tuple(sorted(names)), isinstance(targets, str),
                         str(found.get("base_model_name_or_path") or ""), str(found.get("revision") or ""))


def check_weights(path: Path, config: AdapterConfig, *, max_rank: int,
                  base: Mapping[str, tuple[int, ...]] | None) -> None:
    """Raises AdapterRefused where the file is not a LoRA's weights as `config` says.

    `base` gives the shapes of the base model's weights by module, None where they are not here.
    """
    with path.open("rb") as file:
        tensors = read_header(file)
        pairs = _pairs(tensors)
        for module, (down, up) in pairs.items():
            _check_pair(module, down, up, config, max_rank)
            if base is not None:
                _check_module(module, down, up, base)
        for name, tensor in tensors.items():
            if not is_finite(file, tensor):
                raise AdapterRefused(f"The tensor {_short(name)} holds NaN or Infinity.",
                                     hint="The training that made it went wrong.")


def read_header(file: IO[bytes]) -> dict[str, Tensor]:
    """The tensors of a safetensors file, which lie one behind the other to its end. Raises AdapterRefused."""
    size = file.seek(0, 2)
    file.seek(0)
    head = file.read(8)
    if head[:2] == b"PK" or head[:1] == b"\x80":
        raise AdapterRefused(f"{WEIGHTS} is a pickle by another name, and pickles run code when they are loaded.",
                             hint="Save the adapter again with save_pretrained, which writes safetensors.")
    length = int.from_bytes(head, "little")
    if len(head) < 8 or not 2 <= length <= min(MAX_HEADER_BYTES, size - 8):
        raise AdapterRefused(f"{WEIGHTS} has {size:,} bytes and says its header has {length:,}; at most "
                             f"{MAX_HEADER_BYTES:,} are read.")
    found = _json_object(file.read(length), f"the header of {WEIGHTS}", MAX_HEADER_BYTES)
    found.pop("__metadata__", None)
    if not 1 <= len(found) <= MAX_TENSORS:
        raise AdapterRefused(f"{WEIGHTS} holds {len(found):,} tensors; between 1 and {MAX_TENSORS:,} are read.")
    tensors = {name: _tensor(name, entry, 8 + length) for name, entry in found.items()}
    _check_places(tensors, 8 + length, size)
    return tensors


def _json_object(data: bytes, what: str, most: int) -> dict[str, Any]:
    try:
        if len(data) > most:
            raise ValueError(f"it is longer than {most:,} bytes")
        found = json.loads(data, object_pairs_hook=_without_doubles)
    except (ValueError, RecursionError) as error:
        raise AdapterRefused(f"{what[:1].upper()}{what[1:]} cannot be read: {error}.") from error
    if not isinstance(found, dict):
        raise AdapterRefused(f"{what[:1].upper()}{what[1:]} is not a JSON object.")
    return found


def _without_doubles(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("it names something twice")
    return found


def _tensor(name: str, entry: Any, start: int) -> Tensor:
    found: dict[str, Any] = entry if isinstance(entry, dict) else {}
    shape: Any = found.get("shape")
    dtype: Any = found.get("dtype")
    places: Any = found.get("data_offsets")
    if dtype not in WIDTHS or not _are_sizes(shape) or not _are_sizes(places, 2):
        raise AdapterRefused(f"The tensor {_short(name)} has no proper dtype, shape and data_offsets.")
    count = WIDTHS[dtype]
    for side in shape:
        count *= side
    if places[1] - places[0] != count:
        raise AdapterRefused(f"The tensor {_short(name)} of {dtype} {list(shape)} takes {count:,} bytes; its place has "
                             f"{places[1] - places[0]:,}.")
    return Tensor(dtype, tuple(shape), start + places[0], start + places[1])


def _are_sizes(value: Any, count: int | None = None) -> bool:
    return isinstance(value, list) and len(value) <= 8 and count in (None, len(value)) and all(
        isinstance(item, int) and not isinstance(item, bool) and 0 <= item < 1 << 48 for item in value)


def _check_places(tensors: Mapping[str, Tensor], start: int, size: int) -> None:
    at = start
    for name, tensor in sorted(tensors.items(), key=lambda item: (item[1].begin, item[1].end)):
        if tensor.begin != at:
            raise AdapterRefused(f"The tensor {_short(name)} begins at byte {tensor.begin:,}, and the one before it "
                                 f"ends at {at:,}: they {'overlap' if tensor.begin < at else 'leave a gap'}.")
        at = tensor.end
    if at != size:
        raise AdapterRefused(f"The tensors end at byte {at:,}; the file has {size:,}.")


def _pairs(tensors: Mapping[str, Tensor]) -> dict[str, tuple[Tensor, Tensor]]:
    modules: dict[str, dict[str, Tensor]] = {}
    for name, tensor in tensors.items():
        ending = next((ending for ending in (A, B) if name.endswith(ending)), "")
        if not ending or not name.startswith(PREFIX):
            raise AdapterRefused(f"The tensor {_short(name)} is no part of a LoRA as PEFT saves it.")
        modules.setdefault(name.removeprefix(PREFIX).removesuffix(ending), {})[ending] = tensor
    for module, found in modules.items():
        if len(found) < 2:
            raise AdapterRefused(f"The module {_short(module)} has {next(iter(found))[1:]} and not its counterpart.")
    return {module: (found[A], found[B]) for module, found in modules.items()}


def _check_pair(module: str, down: Tensor, up: Tensor, config: AdapterConfig, max_rank: int) -> None:
    for tensor in (down, up):
        if tensor.dtype not in EXPONENTS or len(tensor.shape) != 2:
            raise AdapterRefused(f"The module {_short(module)} has weights of {tensor.dtype} {list(tensor.shape)}; "
                                 f"they must be matrices of {', '.join(EXPONENTS)}.")
    rank = down.shape[0]
    if rank != up.shape[1] or not 1 <= rank <= max_rank or (rank != config.rank and not config.has_rank_pattern):
        raise AdapterRefused(f"The module {_short(module)} has the shapes {list(down.shape)} and {list(up.shape)}; "
                             f"{CONFIG} says rank {config.rank}, and endpoints load at most {max_rank}.")
    # A pattern is never run here: a person's expression can take for ever.
    if not config.is_pattern and not any(module == name or module.endswith(f".{name}")
                                         for name in config.target_modules):
        raise AdapterRefused(f"The module {_short(module)} is none of the target_modules "
                             f"{', '.join(config.target_modules[:10])}.")


def _check_module(module: str, down: Tensor, up: Tensor, base: Mapping[str, tuple[int, ...]]) -> None:
    shape = _shape_of(module, base)
    if shape is None:
        raise AdapterRefused(f"The base model has no module {_short(module)}.",
                             hint="The adapter was made over another model.")
    wanted = (up.shape[0], down.shape[1])
    if wanted not in (shape, shape[::-1]):
        raise AdapterRefused(f"The module {_short(module)} is {list(shape)} in the base model, and the adapter changes "
                             f"a matrix of {list(wanted)}.", hint="The adapter was made over another model.")


def _shape_of(module: str, base: Mapping[str, tuple[int, ...]]) -> tuple[int, ...] | None:
    """The shape of a module's weight; checkpoints may put other words in front of the layers than the loaded model."""
    if module in base:
        return base[module]
    at = module.find("layers.")
    tail = module[at:] if at >= 0 else module.rpartition(".")[2]
    return next((shape for name, shape in base.items() if name == tail or name.endswith(f".{tail}")), None)


def base_shapes(folder: Path) -> dict[str, tuple[int, ...]] | None:
    """The shapes of a prepared base model's weights by module; None where none lie there."""
    found: dict[str, tuple[int, ...]] = {}
    for path in sorted(folder.glob("*.safetensors")):
        with path.open("rb") as file:
            found |= {name.removesuffix(".weight"): tensor.shape for name, tensor in read_header(file).items()}
    if "lm_head" not in found and (tied := next((shape for name, shape in found.items()
                                                 if name.endswith("embed_tokens")), None)):
        found["lm_head"] = tied
    return found or None


# Numbers that are not finite ----------------------------------------------------------------------------------------


def is_finite(file: IO[bytes], tensor: Tensor) -> bool:
    """Whether every number of a tensor is; a file of any length in constant memory."""
    return all(_chunk_is_finite(chunk, tensor.dtype) for chunk in _chunks(file, tensor))


def _chunks(file: IO[bytes], tensor: Tensor) -> Iterator[bytes]:
    file.seek(tensor.begin)
    left = tensor.end - tensor.begin
    while left and (chunk := file.read(min(SCAN_BYTES, left))):
        left -= len(chunk)
        yield chunk


def _chunk_is_finite(chunk: bytes, dtype: str) -> bool:
    """All numbers at once, each a lane of one whole number.

    With the exponent's bits alone kept and turned over, a lane is zero exactly where the number is not finite. Adding
    0x7FF… sets the top bit of every other lane, and never carries into the next.
    """
    exponents, fill, tops = _lanes(dtype, len(chunk) // WIDTHS[dtype])
    turned = (int.from_bytes(chunk, "little") & exponents) ^ exponents
    return (turned + fill) & tops == tops


@lru_cache(maxsize=16)
def _lanes(dtype: str, count: int) -> tuple[int, int, int]:
    width = WIDTHS[dtype]
    top = 1 << (8 * width - 1)
    exponents, fill, tops = (int.from_bytes(value.to_bytes(width, "little") * count, "little")
                             for value in (EXPONENTS[dtype], top - 1, top))
    return exponents, fill, tops


def _short(name: str) -> str:
    return ascii(name if len(name) <= 80 else f"{name[:80]}…")
