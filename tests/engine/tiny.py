"""A base model small enough for tests, made on the spot: no download, no file in the repository."""

import itertools
import json
import random
import sys
from pathlib import Path
from typing import Any

CHATML = (
    "{% for message in messages %}"
    "{% if loop.first and message['role'] != 'system' %}{{ '<|im_start|>system\nYou help.<|im_end|>\n' }}{% endif %}"
    "{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n' }}"
    "{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)
WORDS = [
    "the", "parcel", "is", "late", "refund", "invoice", "login", "reset", "password", "broken", "screen",
    "thank", "you", "please", "help", "order", "number", "billing", "technical", "account", "shipping",
    "category", "priority", "high", "low", "where", "my", "cannot", "open", "again", "after", "update",
]  # fmt: skip
SYSTEM = "Sort the ticket. Answer with a JSON object that has the fields category and priority and nothing else."


def make_base_model(folder: Path, *, vocabulary: int = 400, **config: Any) -> Path:
    """A Llama folder with random weights from a fixed seed, stored as bf16 the way a prepared base model is."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    tokenizer = make_tokenizer(vocabulary)
    settings = {
        "vocab_size": len(tokenizer),
        "hidden_size": 64,
        "intermediate_size": 128,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "max_position_embeddings": 2048,
        "tie_word_embeddings": True,
        "bos_token_id": tokenizer.bos_token_id,
        "eos_token_id": tokenizer.eos_token_id,
        "pad_token_id": tokenizer.pad_token_id,
        "initializer_range": 0.08,
        **config,
    }
    torch.manual_seed(7)
    model = LlamaForCausalLM(LlamaConfig(**settings))
    # The padding token starts as zeros, and as the end of a turn it must be learnable: its logit may not be fixed at 0.
    torch.nn.init.normal_(model.get_input_embeddings().weight.data[tokenizer.pad_token_id], std=0.08)
    model.to(torch.bfloat16).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def make_tokenizer(vocabulary: int = 400, template: str = CHATML) -> Any:
    """A byte-level BPE trained on the tests' own words; pad is the end-of-turn token, as in many small models."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    special = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
    raw = Tokenizer(models.BPE())
    raw.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    raw.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary,
        special_tokens=special,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    raw.train_from_iterator([SYSTEM, "system user assistant tool\n", *WORDS * 5], trainer)
    return PreTrainedTokenizerFast(
        tokenizer_object=raw,
        bos_token="<|im_start|>",
        eos_token="<|im_end|>",
        pad_token="<|im_end|>",
        unk_token="<|endoftext|>",
        chat_template=template,
        model_max_length=2048,
    )


def ticket_rows(count: int, *, seed: int = 0, system: str | None = SYSTEM) -> list[dict[str, Any]]:
    """Rows with a shared system prompt (or none), tickets of unequal length and short JSON answers."""
    rng = random.Random(seed)
    return [ticket_row(rng, system) for _ in range(count)]


def ticket_row(rng: random.Random, system: str | None) -> dict[str, Any]:
    """One ticket and its answer."""
    ticket = " ".join(rng.choices(WORDS, k=rng.randint(3, 25)))
    answer = {"category": rng.choice(["billing", "technical", "shipping"]), "priority": rng.choice(["high", "low"])}
    head = [{"role": "system", "content": system}] if system else []
    return {
        "messages": [
            *head,
            {"role": "user", "content": ticket},
            {"role": "assistant", "content": json.dumps(answer)},
        ]
    }


def sft_config(**changes: Any) -> dict[str, Any]:
    """A resolved configuration with every field, as the descriptor names them; changes go by dotted path."""
    config: dict[str, Any] = {
        "method": "sft",
        "hyperparams": {
            "lora": {"rank": 4, "alpha": 8, "dropout": 0, "targetModules": "default"},
            "optimizer": {"kind": "adamw", "learningRate": 0.005, "weightDecay": 0, "maxGradNorm": 1},
            "scheduler": {"kind": "linear", "warmupRatio": 0, "minLearningRateRatio": 0},
            "training": {
                "epochs": 1,
                "maxSteps": None,
                "microBatchPerGpu": 2,
                "gradientAccumulation": 2,
                "validationFrequencySteps": 100,
                "seed": 42,
            },
        },
        "model": {"precision": "BF16", "gradientCheckpointing": False, "attentionImplementation": "sdpa"},
        "maxSeqLength": 512,
        "data": {"validationDataset": None, "truncation": "error", "packing": False, "shuffle": True},
        "loss": {
            "assistantTurns": "last",
            "trainOnToolCalls": True,
            "trainOnToolResults": False,
            "explicitLossMaskColumn": None,
        },
    }
    for path, value in changes.items():
        put(config, path.split("."), value)
    return config


def put(body: dict[str, Any], path: list[str], value: Any) -> None:
    """Set one field by its path."""
    for name in path[:-1]:
        body = body[name]
    body[path[-1]] = value


def sft_plan(base: Path, files: list[Path], **changes: Any) -> dict[str, Any]:
    """A whole supervised plan; `config.…` and plan fields are changed by dotted path."""
    plan: dict[str, Any] = {
        "version": 1,
        "entry": "sft",
        "attempt": "a" * 64,
        "subject": {"kind": "run", "id": "b" * 64},
        "threads": 1,
        "device": {"kind": "cpu", "uuids": []},
        "base_model": {"folder": str(base), "revision": "r1", "repository": "test/tiny"},
        "dataset": {"files": [str(file) for file in files], "content_hash": "c" * 64, "num_examples": None},
        "validation": None,
        "config": sft_config(),
        "execution": {"gpus": 1, "saveEvery": None, "microBatchSequences": None},
        "total_steps": None,
        "resume": None,
        "first_attempt": True,
        "strict": False,
    }
    return changed(plan, **changes)


def evaluation_plan(base: Path, files: list[Path], **changes: Any) -> dict[str, Any]:
    """A whole plan of an evaluation of the bare base model, changed as `sft_plan` is."""
    plan: dict[str, Any] = {
        "version": 1,
        "entry": "evaluate",
        "attempt": "a" * 64,
        "subject": {"kind": "evaluation", "id": "e" * 64},
        "threads": 1,
        "device": {"kind": "cpu", "uuids": []},
        "base_model": {"folder": str(base), "revision": "r1", "repository": "test/tiny"},
        "rows": {"files": [str(file) for file in files], "inline": []},
        "systems": [{"name": "candidate", "adapter": None}],
        "max_new_tokens": 12,
        "max_prompt_tokens": None,
        "skip_positions": [],
        "merge": True,
        "batch_size": 4,
    }
    return changed(plan, **changes)


def pair_rows(count: int, *, seed: int = 0) -> list[dict[str, Any]]:
    """Tickets with the right answer preferred to that of another ticket."""
    rows = ticket_rows(count + 1, seed=seed)
    return [
        {"prompt": row["messages"][:-1], "chosen": row["messages"][-1],
         "rejected": {"role": "assistant", "content": other["messages"][-1]["content"] + " or so"}}
        for row, other in itertools.pairwise(rows)
    ]  # fmt: skip


def dpo_plan(base: Path, files: list[Path], **changes: Any) -> dict[str, Any]:
    """A whole plan of a run over preference pairs, changed as `sft_plan` is."""
    plan = sft_plan(base, files, **{
        "entry": "dpo", "config.method": "dpo", "config.hyperparams.optimizer.learningRate": 0.002,
        "config.preference": {"beta": 0.1, "lossType": "sigmoid", "fusedLoss": True},
        "config.model.gradientCheckpointing": True,
    })  # fmt: skip
    return changed(plan, **changes)


def rl_config(**changes: Any) -> dict[str, Any]:
    """A resolved reinforcement configuration with every field; changes go by dotted path."""
    config = {
        "method": "grpo",
        "rlHyperparams": {
            "lora": {"rank": 4, "alpha": 8, "dropout": 0, "targetModules": "default"},
            "optimizer": {"kind": "adamw", "learningRate": 0.01, "weightDecay": 0, "maxGradNorm": 1},
            "scheduler": {"kind": "constant", "warmupRatio": 0, "minLearningRateRatio": 0},
            "epochs": 1,
            "groupSize": 4,
            "promptsPerStep": 2,
            "maxCompletionLength": 12,
            "maxSteps": 0,
            "klBeta": 0.04,
            "temperature": 0.7,
            "stalenessThreshold": 0,
        },
        "reward": {"terms": [{"kind": "grader", "weight": 1, "grader": "vowels"}], "onFailure": "zero"},
        "model": {"precision": "BF16", "gradientCheckpointing": False, "attentionImplementation": "sdpa"},
        "maxSeqLength": 512,
    }
    for path, value in changes.items():
        put(config, path.split("."), value)
    return config


def rl_plan(base: Path, files: list[Path], **changes: Any) -> dict[str, Any]:
    """A whole plan of a reinforcement run, scored by the tests' own scorer, changed as `sft_plan` is."""
    plan = sft_plan(base, files)
    del plan["validation"]
    spec = {"terms": [term("vowels")], "onFailure": "zero", "limits": {"seconds": 5, "memoryBytes": 1 << 29},
            "scratch": None}  # fmt: skip
    plan |= {"entry": "grpo", "config": rl_config(), "start": None, "pause_at": None, "warm_start": None,
             "failed_updates": 5,
             "scorer": {"command": [sys.executable, str(Path(__file__).parent / "scorer.py")],
                        "cwd": str(Path(__file__).parent), "spec": spec}}  # fmt: skip
    return changed(plan, **changes)


def term(grader: str, weight: float = 1.0, **changes: Any) -> dict[str, Any]:
    """A term of a reward, under the name of its grader."""
    return {"name": grader, "weight": weight, "kind": "grader", "grader": grader, **changes}


def changed(plan: dict[str, Any], **changes: Any) -> dict[str, Any]:
    """A copy of a plan with fields changed by dotted path."""
    copy: dict[str, Any] = json.loads(json.dumps(plan))
    for path, value in changes.items():
        put(copy, path.split("."), value)
    return copy


def read_events(attempt: Path) -> list[dict[str, Any]]:
    """The events of an attempt, in order."""
    return [json.loads(line) for line in (attempt / "events.jsonl").read_bytes().splitlines()]


def events_of(attempt: Path, type_: str) -> list[dict[str, Any]]:
    """The events of one type."""
    return [event for event in read_events(attempt) if event["type"] == type_]
