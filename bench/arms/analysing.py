"""Both arms of the analysis bar: the job's entry over a file, or the library's rendering and tokenising of its rows."""

import json
import os
import sys
import tempfile
import time
from pathlib import Path

os.environ["TOKENIZERS_PARALLELISM"] = "false"

import gate
from optimize_child.analyse import do_without_torch

BATCH = 256


def main(settings: dict) -> None:
    do_without_torch()
    prepare = (ours if settings["ours"] else plain)(Path(settings["base"]), Path(settings["rows"]))
    turn = prepare()
    gate.reply(ready=True)
    while True:
        gate.await_word()
        started, processor = time.perf_counter(), time.process_time()
        tokens = turn()
        gate.reply(seconds=time.perf_counter() - started, cpu=time.process_time() - processor, tokens=tokens)
        turn = prepare()


def ours(base: Path, rows: Path):
    """Each turn is a new analysis that knows nothing of the rows; its tokenizer is loaded before the clock starts."""
    from optimize_child.analysis.whole import Analysis
    from optimize_child.job import Job

    def prepare():
        attempt = Path(tempfile.mkdtemp(prefix="bench-"))
        plan = {
            "base_model": {"folder": str(base), "revision": "bench", "repository": "bench"},
            "dataset": {"files": [str(rows)], "content_hash": "bench", "num_examples": None},
            "product_version": "bench",
            "processes": 1,
            "out": str(attempt / "out"),
        }
        (attempt / "plan.json").write_text(json.dumps(plan))
        analysis = Analysis(Job(attempt))

        def turn() -> int:
            analysis.run()
            events = (attempt / "events.jsonl").read_text().splitlines()
            return json.loads(events[-1])["report"]["totalTokens"]

        return turn

    return prepare


def plain(base: Path, rows: Path):
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(base)
    conversations = [json.loads(line)["messages"] for line in rows.read_bytes().splitlines()]

    def turn() -> int:
        tokens = 0
        for start in range(0, len(conversations), BATCH):
            part = conversations[start : start + BATCH]
            texts = [tokenizer.apply_chat_template(messages, tokenize=False) for messages in part]
            encodings = tokenizer.backend_tokenizer.encode_batch(texts, add_special_tokens=False)
            tokens += sum(map(len, encodings))
        return tokens

    return lambda: turn


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
