"""A box that has been at work, for looking at pages: support tickets, runs in every state, evaluations, a champion."""

import json
import math
import random
import time
from pathlib import Path
from typing import Any

from tests import factories as make

EXAMPLE = Path(__file__).resolve().parents[2] / "catalogs" / "examples" / "support-triage"
BASE = "HuggingFaceTB/SmolLM2-135M-Instruct"
WORKLOAD = "support-triage"


def base_model() -> Any:
    """SmolLM2-135M, ready."""
    facts = {"contextLength": 8192, "parameters": 134515008, "architecture": "LlamaForCausalLM",
             "chatTemplateSha256": "872be49dbb638044ad01b60388f48d469ff2980e5f0dccdc22ec907db54d0788"}
    return make.put_weights(make.make_base_model(BASE, revision="b179c9523d0e", folder="base-models/smol", facts=facts))


def lines(file: str, count: int) -> list[str]:
    """The first rows of the example's file."""
    return (EXAMPLE / file).read_text().splitlines()[:count]


def workload(rows: int = 24) -> Any:
    """The support-triage workload with so many rows to train on four times over, and to judge by."""
    make.make_dataset(f"{WORKLOAD}/train", "\n".join(lines("train.jsonl", 4 * rows + 60)).encode(), alias="current")
    make.make_dataset(f"{WORKLOAD}/eval", "\n".join(lines("eval.jsonl", rows)).encode())
    return make.make_workload(WORKLOAD, dataset=f"{WORKLOAD}/eval", grader="json-label-match",
                              description="Sort incoming tickets by queue and priority.")


def document(**changes: Any) -> dict[str, Any]:
    """The example's run descriptor, with validation."""
    found = json.loads((EXAMPLE / "run.json").read_text())
    found["config"]["data"] = {"validationDataset": f"{WORKLOAD}/eval"}
    training = found["config"]["hyperparams"]["training"]
    training |= {"epochs": 3, "maxSteps": changes.pop("steps", 240), "validationFrequencySteps": 20}
    found["config"]["hyperparams"]["lora"]["rank"] = changes.pop("rank", 8)
    return found | changes


def submit(**changes: Any) -> Any:
    """A submitted run that waits for a device."""
    return submit_stated(document(**changes))


def submit_stated(stated: dict[str, Any]) -> Any:
    """The run of a descriptor, over rows that were measured."""
    from optimize_site.kernel.auth import Actor
    from runs.operations import advance_run, submit_run

    make.measured(stated["config"]["dataset"], stated["config"].get("data", {}).get("validationDataset"),
                  repository=stated["baseModel"])
    run = submit_run(stated, actor=Actor("ada", "admin")).run
    advance_run(run.pk)
    run.refresh_from_db()
    return run


def training_events(upto: int, total: int, *, seed: int = 1, began: float | None = None) -> list[dict[str, Any]]:
    """What a job says from its start to update `upto`."""
    noise, began = random.Random(seed), began or time.time() - upto * 2.4 - 20
    said: list[dict[str, Any]] = [
        {"type": "started", "pid": 1, "versions": {"torch": "2.13.0", "trl": "1.16.0"}},
        {"type": "stage", "name": "tokenising", "done": 720, "total": 720},
        {"type": "data_fit", "rows": 720, "tooLong": 0, "trainedTokens": 12240, "totalTokens": 148_912,
         "paddingShare": 0.0, "longest": 311},
        {"type": "plan_size", "totalSteps": total, "rowsPerEpoch": 720},
        {"type": "check", "name": "reference", "passed": True, "value": 2.1e-7, "bound": 1e-5, "seconds": 1.9},
        {"type": "hparams", "values": {"learning_rate": 0.001}, "sha": "0" * 64},
        {"type": "engine_config", "requested": {"lora": {"target_modules": ["q_proj", "v_proj"]}},
         "resolved": {"config": {"logits": "trained tokens only", "shared_prefix": True}}}]
    for step in range(1, upto + 1):
        fall = 2.6 * math.exp(-step / 28) + 0.21
        rate = 0.001 * (1 - step / total)
        said.append({"type": "metrics", "step": step, "t": began + 20 + step * 2.4, "values": {
            "loss": fall * (1 + noise.gauss(0, 0.09)), "learning_rate": rate,
            "grad_norm": abs(noise.gauss(0.9, 0.25)) + (3.1 if step == 61 else 0),
            "tokens_per_second": noise.gauss(812, 38), "step_seconds": abs(noise.gauss(2.4, 0.1)),
            "peak_memory_bytes": 1_620_000_000 + min(step, 9) * 11_000_000,
            "epoch": step / 90, "tokens": step * 1650, "trained_tokens": step * 136}})
        if step % min(20, total // 3) == 0 or step == total:
            loss = fall + 0.08 + 0.0006 * step
            said.append({"type": "validation", "step": step, "loss": loss, "perplexity": math.exp(loss)})
            said.append(snapshot(step, final=step == total))
    return said


def snapshot(step: int, *, final: bool = False) -> dict[str, Any]:
    """A committed save."""
    return {"type": "snapshot", "step": step, "folder": f"snapshots/step-{step}", "weights": True,
            "trainingState": True, "manifestSha256": f"{step:064x}", "bytes": 5_612_340, "final": final}


def train(upto: int, **changes: Any) -> Any:
    """A run whose job is at update `upto` now."""
    total = changes.setdefault("steps", 240)
    seed = changes.pop("seed", 1)
    run = submit(**changes)
    attempt = make.claim_job()
    make.tell_job(attempt, *training_events(upto, total, seed=seed))
    run.refresh_from_db()
    run.attempt = attempt
    write_logs(attempt)
    return run


def write_logs(attempt: Any) -> None:
    """What the job printed, with the escapes that progress bars write."""
    from optimize_site.kernel.work import attempt_folder

    folder = attempt_folder(attempt.pk)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "stderr.log").write_text("\x1b[32mreading\x1b[0m 720 rows\nloading base model: 10%\rloading base model: "
                                       "100%\n<script>alert('log')</script>\nfirst update after 6.1 s\n")


def complete(run: Any) -> Any:
    """The run's job ends well and its adapter becomes a model."""
    from optimize_site.kernel.work import attempt_folder
    from runs.operations import advance_run

    folder = attempt_folder(run.attempt.pk) / "snapshots" / f"step-{run.total_steps}"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "adapter_config.json").write_text('{"peft_type": "LORA", "r": 8}')
    (folder / "adapter_model.safetensors").write_bytes(run.pk.encode() * 4000)
    make.tell_job(run.attempt, {"type": "finished", "step": run.total_steps, "adapter": str(folder.name)})
    make.end_job(run.attempt)
    advance_run(run.pk)
    run.refresh_from_db()
    return run


def fail(run: Any, code: str, reason: str, hint: str, evidence: dict[str, Any]) -> Any:
    """The run's job gives up."""
    from runs.operations import advance_run

    make.tell_job(run.attempt, {"type": "failure", "code": code, "reason": reason, "hint": hint, "evidence": evidence})
    make.end_job(run.attempt, "failed")
    advance_run(run.pk)
    run.refresh_from_db()
    return run


def evaluate(model: str, right: float, *, upto: int | None = None, seed: int = 1, slot: int = 0) -> Any:
    """An evaluation whose answers are right with that chance; finished, or at row `upto` now."""
    from evaluations.operations.evaluations import Request, start_evaluation
    from optimize_site.kernel.auth import Actor

    row = start_evaluation(Request(model=model, workload=WORKLOAD), actor=Actor("ada", "admin")).evaluation
    attempt = make.claim_job(slot=slot)
    dice = random.Random(seed)
    make.tell_job(attempt, {"type": "started", "pid": 1, "versions": {}},
                  *[answer_of(number, json.loads(line), right, dice)
                    for number, line in enumerate(lines("eval.jsonl", row.num_rows)[:upto])])
    if upto is None:
        make.end_job(attempt)
    row.refresh_from_db()
    return row


QUEUES = ("billing", "shipping", "returns", "technical", "account")


def answer_of(position: int, row: dict[str, Any], right: float, dice: random.Random) -> dict[str, Any]:
    *prompt, last = row["messages"]
    expected = json.loads(last["content"])
    given = dict(expected)
    if dice.random() > right:
        given["queue"] = dice.choice(QUEUES)
    if dice.random() > (right + 1) / 2:
        given["priority"] = dice.choice(("high", "normal", "low"))
    text = json.dumps(given) if dice.random() > 0.02 else "The ticket is about a late parcel."
    return {"type": "answer", "position": position, "system": "candidate", "prompt": prompt,
            "expected": last["content"], "answer": text, "prompt_tokens": 180 + position % 40, "completion_tokens": 14,
            "chat_template_sha256": "872be49dbb638044ad01b60388f48d469ff2980e5f0dccdc22ec907db54d0788",
            "base_model_revision": "b179c9523d0e", "finish": "stop"}


def busy_box(steps: int = 24, rows: int = 24) -> dict[str, Any]:
    """Everything at once, of so many updates and rows; gives the rows by name."""
    from evaluations.operations.promotion import promote
    from optimize_site.kernel.auth import Actor

    ada = Actor("ada", "admin")
    make.make_device("cpu", name="AMD EPYC 7B13, 2 cores", node="workbench")
    base = base_model()
    task = workload(rows)
    make.make_dataset("acme-assistant-tools/weather-and-calendar-calls-from-production", tool_rows())
    make.make_workload("refund-reasons", description="Why customers ask for their money back.")
    first = complete(train(steps, steps=steps, configName="r8-e3", description="Three passes at rank 8"))
    second = complete(train(steps, steps=steps, configName="r16-e3", rank=16, seed=7,
                            description="Rank 16, otherwise as r8-e3"))
    base_score = evaluate(base.version.reference, 0.28, seed=3)
    first_score = evaluate(first.model.pk, 0.82, seed=5)
    promote(task, first.model, actor=ada, note="Well ahead of the base")
    second_score = evaluate(second.model.pk, 0.9, seed=6)
    hot = train(steps // 4, steps=steps, configName="r8-hot", description="A learning rate of 0.05", seed=9)
    failed = fail(hot, "non_finite_loss",
                  f"The loss was NaN at update {steps // 4 + 1}, so the run stopped and registers no model.",
                  "Lower optimizer.learningRate or raise scheduler.warmupRatio.",
                  {"step": steps // 4 + 1, "learningRate": 0.05, "lastLoss": 11.3})
    running = train(steps * 4 // 7, steps=steps, configName="r8-e3-warm", description="With a tenth of warm-up", seed=4)
    scoring = evaluate(second.model.pk, 0.9, upto=rows * 3 // 7, seed=8, slot=1)
    waiting = submit(configName="r32-e3", rank=32, steps=steps)
    return {"base": base, "workload": task, "first": first, "second": second, "failed": failed, "running": running,
            "waiting": waiting, "base_score": base_score, "first_score": first_score, "second_score": second_score,
            "scoring": scoring, "upload": make.open_upload("refund-reasons/more")}


GRID = "axes:\n  - {path: hyperparams.optimizer.learningRate, values: [0.0005, 0.001]}"


def pipeline_document(gate: float = 0.6) -> dict[str, Any]:
    """Train, judge what came out, and train longer only where that was good enough."""
    stage = {key: value for key, value in document(steps=24).items() if key in {"baseModel", "config"}}
    judge = {"name": "judge", "type": "evaluate", "model": "@first", "dataset": f"{WORKLOAD}/eval",
             "minMeanScore": gate}
    return {"kind": "pipeline", "workload": WORKLOAD, "description": "Longer only where it pays",
            "stages": [{"name": "first", "type": "train"} | stage, judge, {"name": "longer", "type": "train"} | stage]}


def lineage(box: dict[str, Any]) -> dict[str, Any]:
    """What came of a busy box's runs: a branch, a sweep of two points, a pipeline, a comparison."""
    from evaluations.operations.comparisons import Wish as Compared
    from evaluations.operations.comparisons import create_comparison
    from evaluations.operations.pipelines import advance_pipelines, start_pipeline
    from optimize_site.kernel.auth import Actor
    from optimize_site.kernel.documents import parse_document
    from runs.operations import branch_run, sweep_runs
    from runs.operations.branching import Wish

    ada = Actor("ada", "admin")
    snapshot = box["second"].snapshots.order_by("step").first()
    branch = branch_run(Wish(snapshot, 6, overrides={"hyperparams": {"training": {"seed": 5}}}, config_name="seed-5"),
                        actor=ada).run
    sweep = sweep_runs(snapshot, steps=4, grid=parse_document(GRID), actor=ada)
    pipeline = start_pipeline(pipeline_document(), actor=ada).pipeline
    advance_pipelines()
    compared = create_comparison(Compared(snapshot.pk, branches=(box["first"].pk,), dataset=f"{WORKLOAD}/eval"),
                                 actor=ada).comparison
    return {"snapshot": snapshot, "branch": branch, "sweep": [point.run for point in sweep.points],
            "pipeline": pipeline, "comparison": compared}


def tool_rows() -> bytes:
    """Rows with tools, calls and results, in two languages."""
    city_only = {"type": "object", "properties": {"city": {"type": "string"}}}
    tool = {"type": "function", "function": {"name": "get_weather", "description": "The weather in a city",
                                             "parameters": city_only}}
    rows = []
    for number, city in enumerate(("Lisboa", "Zürich", "東京", "Reykjavík") * 3):
        call = {"id": f"call_{number}", "type": "function",
                "function": {"name": "get_weather", "arguments": {"city": city}}}
        rows.append({"tools": [tool], "messages": [
            {"role": "user", "content": f"What should I wear in {city} tomorrow? <b>#{number}</b>"},
            {"role": "assistant", "content": "", "tool_calls": [call]},
            {"role": "tool", "tool_call_id": f"call_{number}", "name": "get_weather", "content": '{"celsius": 14}'},
            {"role": "assistant", "content": f"A light jacket: {city} has 14 degrees."}]})
    return b"".join(json.dumps(row, ensure_ascii=False).encode() + b"\n" for row in rows)


def submit_rewarded(upto: int, **changes: Any) -> Any:
    """A reinforcement run that waits for its device."""
    stated = document(**changes)
    stated["config"] = {
        "dataset": stated["config"]["dataset"], "method": "grpo", "maxSeqLength": 1024,
        "rlHyperparams": {"maxSteps": max(upto, 2), "promptsPerStep": 4, "groupSize": 4, "maxCompletionLength": 64},
        "reward": {"terms": [{"kind": "grader", "grader": "json-label-match"},
                             {"kind": "grader", "grader": 'regex:{"pattern":"^\\\\{.*\\\\}$"}', "weight": 0.5}]}}
    return submit_stated(stated)


def reinforce(upto: int, **changes: Any) -> Any:
    """A reinforcement run whose job is at update `upto`: it learns a form first, and its answers become alike."""
    run = submit_rewarded(upto, **changes)
    run.attempt = make.claim_job()
    tickets = [json.loads(line)["messages"][:-1] for line in lines("train.jsonl", 4)]
    make.tell_job(run.attempt, {"type": "started", "pid": 1, "versions": {"torch": "2.13.0", "trl": "1.16.0"}},
                  {"type": "plan_size", "totalSteps": max(upto, 2), "rowsPerEpoch": 720},
                  *(event for step in range(1, upto + 1) for event in rolled(run, tickets, step, upto)))
    run.refresh_from_db()
    return run


def rolled(run: Any, tickets: list[Any], step: int, upto: int) -> list[dict[str, Any]]:
    """An update's completions in its job's file, the event that tells of them, and its figures."""
    from tests.rolling import rollouts

    dice, skill = random.Random(step), step / upto
    names = [term["name"] for term in run.references["reward"]]
    lines_ = [rolled_line(tickets[group], group, index, skill, names, dice) for group in range(4) for index in range(4)]
    scores = [line["score"] for line in lines_ if line["score"] is not None]
    lengths = [line["tokens"] for line in lines_]
    mean = sum(scores) / len(scores)
    values = {
        "loss": dice.gauss(0, 0.02), "reward": mean, "reward_std": 0.4 * (1 - skill) + 0.05, "kl": 0.09 * skill**2,
        "zero_variance_groups": 0.5 * skill, "scored_zero": sum(score == 0 for score in scores) / len(scores),
        "scored_full": sum(score == 1.5 for score in scores) / len(scores), "entropy": 2.1 - 1.6 * skill,
        "clip_low": 0.0, "clip_high": 0.002 * skill, "completion_mean": sum(lengths) / len(lengths),
        "completion_min": min(lengths), "completion_max": max(lengths), "completion_clipped": 0.3 * (1 - skill),
        "completion_ended_mean": min(lengths) + 4, "generate_seconds": dice.gauss(7, 0.4), "reward_seconds": 0.2,
        "update_seconds": dice.gauss(2.2, 0.1), "learning_rate": 1e-5 * (1 - skill), "step_seconds": 9.6,
        "grad_norm": abs(dice.gauss(0.4, 0.1)), "peak_memory_bytes": 1.7e9, "judge_tokens": 320.0 + step}
    for place, name in enumerate(names):
        shares = [line["terms"][place]["share"] for line in lines_]
        values |= {f"term.{name}.mean": sum(shares) / len(shares), f"term.{name}.std": 0.2,
                   f"term.{name}.seconds": 0.002 + 0.01 * place, f"term.{name}.failures": 0.0}
    if step % 5 == 0:
        values |= {"failures.timeout": 1.0, f"term.{names[0]}.failures": 1.0}
    return [rollouts(run.attempt, step, lines_), {"type": "metrics", "step": step, "values": values}]


def rolled_line(ticket: Any, group: int, index: int, skill: float, names: list[str],
                dice: random.Random) -> dict[str, Any]:
    """A completion of a ticket: prose at first, later the one answer that scores a little everywhere."""
    has_form, is_right = dice.random() < skill, dice.random() < 0.35 * (1 - skill) + 0.1
    text = '{"queue": "billing", "priority": "normal"}' if has_form and dice.random() < skill else \
        f'{{"queue": "{dice.choice(QUEUES)}", "priority": "low"}}' if has_form else \
        f"<b>The customer</b> writes about {dice.choice(QUEUES)} and seems {dice.choice(('upset', 'calm', 'lost'))}. " \
        f"I would answer them within {dice.randint(2, 40)} hours, because they have waited " \
        f"{dice.randint(2, 9)} days for word from the team that looks after {dice.choice(QUEUES)}."
    scores = (float(is_right), float(has_form))
    fails = dice.random() < 0.03
    terms = [{"name": name, "score": None if fails and not place else scores[place],
              "share": 0.0 if fails and not place else scores[place] * (1.0, 0.5)[place],
              "cause": "timeout" if fails and not place else "",
              "explanation": ("queue right, priority wrong", "the whole text")[place]}
             for place, name in enumerate(names)]
    return {"group": group, "index": index, "row": 4 * group, "prompt": ticket, "tools": None, "completion": text,
            "tokens": len(text) // 4, "finish": "stop" if has_form or dice.random() < 0.6 else "length",
            "score": sum(term["share"] for term in terms), "advantage": dice.gauss(0, 1), "excluded": False,
            "terms": terms}
