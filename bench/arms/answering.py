"""Both arms of the answering bar: our loop over a merged adapter, or the library's generation beside it."""

import json
import sys
import time
from itertools import count
from pathlib import Path

import gate
import torch
from optimize_child.answering.answers import Asked, Limits, answer_all
from optimize_child.bases.models import load_model
from optimize_child.reading.rows import messages_of, read_row
from optimize_child.rendering.template import ChatTemplate
from optimize_child.rendering.tokenizer import load_tokenizer
from peft import LoraConfig, get_peft_model

BATCH = 8


def main(settings: dict) -> None:
    torch.set_num_threads(settings["threads"])
    base = Path(settings["base"])
    tokenizer = load_tokenizer(base)
    chat = ChatTemplate(tokenizer)
    rows = [messages_of(read_row(line)) for line in Path(settings["rows"]).read_bytes().splitlines()]
    prompts = [chat.tokenize([chat.render(row[:-1], to_answer=True)])[0][0] for row in rows]
    model = adapted(base)
    if settings["ours"]:
        model = model.merge_and_unload()
    answer = ours if settings["ours"] else plain
    gate.reply(ready=True)
    for turn in count():
        gate.await_word()
        start = turn * settings["count"] % len(prompts)
        part = (prompts + prompts)[start : start + settings["count"]]
        started, processor = time.perf_counter(), time.process_time()
        answers = answer(model, part, settings["tokens"], tokenizer.pad_token_id)
        elapsed, cpu = time.perf_counter() - started, time.process_time() - processor
        gate.reply(tokens_per_second=sum(map(len, answers)) / elapsed, cpu=cpu, answers=answers)


def adapted(base: Path):
    """The base model with a random adapter: what it says does not matter, how long it takes does."""
    torch.manual_seed(0)
    config = LoraConfig(task_type="CAUSAL_LM", r=8, lora_alpha=16, target_modules="all-linear", init_lora_weights=False)
    model = get_peft_model(load_model(base, device="cpu"), config).eval()
    for name, parameter in model.named_parameters():
        if "lora_B" in name:
            parameter.data *= 0.02
    return model


def ours(model, prompts, tokens, pad):
    asked = [Asked(index, prompt) for index, prompt in enumerate(prompts)]
    found = {one.key: one.answer for one in answer_all(model, asked, Limits(frozenset(), tokens), pad_token_id=pad)}
    return [found[index] for index in range(len(prompts))]


def plain(model, prompts, tokens, pad):
    answers = []
    for start in range(0, len(prompts), BATCH):
        part = prompts[start : start + BATCH]
        width = max(map(len, part))
        ids = torch.tensor([[pad] * (width - len(prompt)) + prompt for prompt in part])
        mask = torch.tensor([[0] * (width - len(prompt)) + [1] * len(prompt) for prompt in part])
        with torch.inference_mode():
            output = model.generate(
                input_ids=ids,
                attention_mask=mask,
                do_sample=False,
                max_new_tokens=tokens,
                min_new_tokens=tokens,
                pad_token_id=pad,
                use_cache=True,
            )
        answers += output[:, width:].tolist()
    return answers


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
