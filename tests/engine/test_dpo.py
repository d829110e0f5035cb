"""Preference runs through the whole entry: their loss beside TRL's and beside float64, their figures, resuming."""

import math
import random
import tracemalloc
from pathlib import Path

import jobs
import numpy as np
import plain_dpo
import pytest
import tiny
import torch
from optimize_child.pairs import kept_reference
from optimize_child.pairs.loss import preference_loss
from optimize_child.pairs.rows import PaddedPairs
from optimize_child.pairs.trainer import PreferenceTrainer
from optimize_child.reading.token_rows import TokenRows
from peft import get_peft_model_state_dict
from safetensors.torch import load_file

pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture
def train(runs_of):
    """Runs one plan over some pairs, each call in an attempt of its own."""
    return runs_of(tiny.pair_rows(12), tiny.dpo_plan)


def weights(attempt: Path) -> dict[str, torch.Tensor]:
    return load_file(attempt / tiny.events_of(attempt, "finished")[0]["adapter"] / "adapter_model.safetensors")


@pytest.mark.requirement("R262", "R270")
def test_a_run_learns_to_prefer_the_chosen_answers(train):
    attempt = train(**{"config.hyperparams.training.epochs": 6})
    losses = jobs.metrics(attempt, "loss")
    assert losses[0] == pytest.approx(math.log(2), abs=1e-6)
    assert losses[-1] < losses[0] - 0.1
    assert jobs.metrics(attempt, "reward_margin")[0] == pytest.approx(0, abs=1e-5)
    assert jobs.metrics(attempt, "reward_margin")[-1] > 0.1
    assert jobs.metrics(attempt, "preference_accuracy")[-1] == 1
    (size,) = tiny.events_of(attempt, "plan_size")
    assert (size["rowsPerEpoch"], size["updatesPerEpoch"]) == (12, 3)
    assert tiny.events_of(attempt, "data_fit")[0]["rows"] == 12


def test_the_first_update_s_time_does_not_count_the_reading_of_the_reference(train):
    attempt = train()
    read = [event for event in tiny.events_of(attempt, "stage") if event["name"] == "reference"][-1]
    first = tiny.events_of(attempt, "metrics")[0]
    assert first["values"]["step_seconds"] <= first["t"] - read["t"] + 0.002


def short_pairs(count: int) -> list[dict]:
    """Pairs whose answers are a word or two: the fp32 sum of many log-probabilities is rounded to more than 1e-6."""
    rng = random.Random(3)

    def answer() -> dict:
        return {"role": "assistant", "content": " ".join(rng.sample(tiny.WORDS, rng.randint(1, 2)))}

    return [{"prompt": row["prompt"], "chosen": answer(), "rejected": answer()} for row in tiny.pair_rows(count)]


@pytest.fixture
def began_with(monkeypatch):
    """The adapters that the updates of runs in this test began with."""
    found = []
    step = PreferenceTrainer.training_step

    def recording(self, *given, **named):
        found.append({name: tensor.detach().clone() for name, tensor in get_peft_model_state_dict(self.model).items()})
        return step(self, *given, **named)

    monkeypatch.setattr(PreferenceTrainer, "training_step", recording)
    return found


@pytest.mark.requirement("R263", "R264")
@pytest.mark.parametrize(("loss_type", "beta"), [("sigmoid", 0.1), ("ipo", 0.1), ("sigmoid", 0.5)])
def test_updates_are_those_of_trls_trainer_from_the_same_weights(
    train, base_model, began_with, loss_type, beta, tmp_path
):
    rows = short_pairs(12)
    changes = {"config.preference.beta": beta, "config.preference.lossType": loss_type,
               "config.model.gradientCheckpointing": beta == 0.5, "config.data.shuffle": False}  # fmt: skip
    attempt = train(rows, **changes)
    config = tiny.dpo_plan(base_model, [], **changes)["config"]
    theirs = plain_dpo.replayed(base_model, rows, began_with, tmp_path / "plain", config)
    assert len(theirs) == len(began_with) == 3
    for name, their_name, allowed in (
        ("loss", "loss", {"rel": 1e-6}),
        ("grad_norm", "grad_norm", {"rel": 1e-6}),
        ("reward_margin", "rewards/margins", {"abs": 1e-6}),
        ("reward_chosen", "rewards/chosen", {"abs": 1e-6}),
        ("preference_accuracy", "rewards/accuracies", {"abs": 0}),
    ):
        expected = [their[their_name] for their in theirs]
        assert jobs.metrics(attempt, name) == pytest.approx(expected, **allowed), name


def test_holding_all_pairs_of_a_pass_changes_where_the_loss_is_computed_and_not_what_it_is(train):
    one, all_ = train(), train(**{"config.preference.fusedLoss": False})
    assert jobs.metrics(one, "loss") == pytest.approx(jobs.metrics(all_, "loss"), rel=1e-4)
    told = [tiny.events_of(attempt, "engine_config")[0]["resolved"]["preferenceLoss"] for attempt in (one, all_)]
    assert [loss["fused"] for loss in told] == [True, False]


@pytest.mark.requirement("R164")
def test_fewer_sequences_a_pass_make_the_same_updates(train, monkeypatch):
    passes, most = PaddedPairs.passes, []

    def counting(self, sequences):
        found = passes(self, sequences)
        most[-1] = max(most[-1], *(len(part["rows"]) for part in found))
        return found

    monkeypatch.setattr(PaddedPairs, "passes", counting)
    whole = {"config.hyperparams.training.microBatchPerGpu": 4, "config.hyperparams.training.gradientAccumulation": 1,
             "config.preference.fusedLoss": False}  # fmt: skip
    attempts = []
    for stated in (None, 4, 2):
        most.append(0)
        attempts.append(train(**whole, **{"execution.microBatchSequences": stated}))
    assert most == [8, 4, 2], "sequences a pass"
    for name in ("loss", "grad_norm", "reward_margin", "preference_accuracy", "trained_tokens"):
        figures = [jobs.metrics(attempt, name) for attempt in attempts]
        assert len(figures[0]) == 3
        assert figures[1:] == [pytest.approx(figures[0], rel=1e-4, abs=1e-6)] * 2, name


@pytest.mark.parametrize("seed", range(3))
def test_the_loss_of_a_pair_is_that_of_the_papers_in_float64(seed):
    generator = torch.Generator().manual_seed(seed)
    moved = torch.randn(8, generator=generator, dtype=torch.float64) * 5
    lengths = torch.randint(1, 9, (8,), generator=generator)
    for row, (sigmoid, ipo) in enumerate(zip(
        preference_loss(moved, lengths, beta=0.3, loss_type="sigmoid").tolist(),
        preference_loss(moved, lengths, beta=0.3, loss_type="ipo").tolist(), strict=True,
    )):  # fmt: skip
        better, worse = float(moved[2 * row]), float(moved[2 * row + 1])
        assert sigmoid == pytest.approx(math.log1p(math.exp(-0.3 * (better - worse))), rel=1e-12)
        mean = better / int(lengths[2 * row]) - worse / int(lengths[2 * row + 1])
        assert ipo == pytest.approx((mean - 1 / 0.6) ** 2, rel=1e-12)


def test_a_run_that_stops_and_goes_on_ends_with_the_bytes_of_one_that_did_not(train, tmp_path, base_model):
    whole = train(**{"config.hyperparams.training.epochs": 2})
    first = train(**{"config.hyperparams.training.epochs": 2, "pause_at": 3})
    (saved,) = tiny.events_of(first, "snapshot")
    second = train(**{"config.hyperparams.training.epochs": 2, "first_attempt": False, "resume": {
        "folder": str(first / saved["folder"]), "step": 3, "manifest_sha256": saved["manifestSha256"],
        "state_manifest_sha256": saved["stateManifestSha256"]}})  # fmt: skip
    expected, found = weights(whole), weights(second)
    assert all(torch.equal(expected[name], found[name]) for name in expected)
    read = [[event["done"] for event in tiny.events_of(attempt, "stage") if event["name"] == "reference"]
            for attempt in (whole, first, second)]  # fmt: skip
    assert read == [[0, 12], [0, 12], []]  # the second attempt took over what the first had read


def test_a_reference_is_taken_over_whole_and_of_the_same_origin_or_not_at_all(tmp_path, base_model):
    plan, rows = tiny.dpo_plan(base_model, []), TokenRows(np.arange(6), np.arange(6), np.array([0, 4, 6]))
    origin, reference = kept_reference.origin_of(plan, rows, None), {0: -12.345678901234567, 1: -math.pi}
    kept_reference.keep(tmp_path, origin, reference)
    assert kept_reference.kept(tmp_path, origin) == reference
    for changed in ({"threads": 7}, {"start": {"mode": "weights"}}, {"total_steps": 9}, {"strict": True}):
        assert kept_reference.kept(tmp_path, kept_reference.origin_of({**plan, **changed}, rows, None)) is None
    others = TokenRows(np.arange(6), np.arange(6), np.array([0, 3, 6]))
    assert kept_reference.kept(tmp_path, kept_reference.origin_of(plan, others, None)) is None
    file = tmp_path / kept_reference.NAME
    whole = file.read_bytes()
    for damaged in (whole[:-1], whole[:-8] + bytes(8), b""):
        file.write_bytes(damaged)
        assert kept_reference.kept(tmp_path, origin) is None
    assert kept_reference.kept(tmp_path / "nowhere", origin) is None


def test_the_rows_of_a_reference_are_told_without_a_copy_of_them_in_memory(base_model):
    tokens = np.arange(1 << 20, dtype=np.int32)
    plan, rows = tiny.dpo_plan(base_model, []), TokenRows(tokens, tokens, np.array([0, 1 << 20]))
    kept_reference.origin_of(plan, rows)
    tracemalloc.start()
    kept_reference.origin_of(plan, rows)
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert most < tokens.nbytes


@pytest.mark.requirement("R262")
def test_a_run_from_an_adapter_takes_that_adapter_as_its_reference(train):
    first = train(**{"config.hyperparams.training.epochs": 2})
    (saved,) = tiny.events_of(first, "snapshot")
    second = train(**{"start": {"mode": "weights", "folder": str(first / saved["folder"]),
                                "manifest_sha256": saved["manifestSha256"]}})  # fmt: skip
    assert jobs.metrics(second, "loss")[0] == pytest.approx(math.log(2), abs=1e-6)


def test_validation_pairs_are_read_with_references_of_their_own(train, write_rows):
    file = write_rows(tiny.pair_rows(5, seed=9), "held-out.jsonl")
    attempt = train(**{"validation": {"files": [str(file)], "num_examples": 5},
                       "config.hyperparams.training.validationFrequencySteps": 1})  # fmt: skip
    readings = tiny.events_of(attempt, "validation")
    assert len(readings) == 3
    assert all(reading["perplexity"] is None for reading in readings)
    assert readings[0]["loss"] == pytest.approx(math.log(2), abs=0.1)


def test_pairs_longer_than_the_limit_are_refused_by_their_places_or_left_out(train):
    rows = tiny.pair_rows(6)
    rows[2]["rejected"]["content"] = "far too long " * 40
    failed = jobs.failure(train(rows, **{"config.maxSeqLength": 256}))
    assert failed["code"] == "row_too_long"
    left = train(rows, **{"config.maxSeqLength": 256, "config.data.truncation": "drop"})
    assert tiny.events_of(left, "data_fit")[0]["tooLong"] == 1
    assert tiny.events_of(left, "data_fit")[0]["rows"] == 5
