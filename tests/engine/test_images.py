"""Rows with images: their length is the processor's, their pixels reach the model, its language backbone learns."""

import importlib.util
import io
import random
import sys
from pathlib import Path
from types import SimpleNamespace

import jobs
import numpy as np
import pytest
import tiny
import tiny_images
import torch
from optimize_child.bases.models import load_model
from optimize_child.failures import JobFailure
from optimize_child.job import Job
from optimize_child.reading.image_rows import read_image_rows
from optimize_child.reading.images import ImageReader
from optimize_child.reading.run_rows import read_run_rows
from optimize_child.reading.token_rows import IGNORED
from optimize_child.reading.tokens import Reading, read_tokens
from optimize_child.rendering.masks import MaskRefused, Policy
from optimize_child.rendering.template import ChatTemplate
from optimize_child.rendering.tokenizer import load_tokenizer
from PIL import Image
from safetensors.torch import load_file
from test_masks import STOCK, tokenizer_of, trained
from tiny_images import TOKENS_AN_IMAGE, image_row

TEXT_ROW = {"messages": [{"role": "user", "content": "where"}, {"role": "assistant", "content": "late parcel"}]}


@pytest.fixture(scope="session")
def image_model(tmp_path_factory):
    return tiny_images.make_image_model(tmp_path_factory.mktemp("image-model"))


@pytest.fixture(scope="session")
def pictures(tmp_path_factory):
    """Where the images lie that rows name, as a plan says it."""
    folder = tmp_path_factory.mktemp("pictures")
    tiny_images.make_image(folder / "5fa1", colour=(200, 30, 30))
    tiny_images.make_image(folder / "77b2", colour=(30, 30, 200), size=(90, 20))
    return {"red.png": str(folder / "5fa1"), "blue.png": str(folder / "77b2")}


@pytest.fixture(scope="session")
def reader(image_model, pictures):
    return ImageReader(image_model, ChatTemplate(load_tokenizer(image_model)), pictures)


@pytest.fixture
def plan_of(image_model, pictures):
    def plan(file, **changes):
        return tiny.sft_plan(image_model, [file], **{"dataset.images": pictures, **changes})

    return plan


def words(reader, row):
    """The tokens of a row and the text of those that are trained."""
    ids, (trained,) = reader.read(row, [Policy()])
    return ids, reader.processor.tokenizer.decode([token for token, bit in zip(ids, trained, strict=True) if bit])


@pytest.mark.requirement("R092")
def test_a_row_is_as_long_as_its_text_and_what_the_processor_makes_of_its_images(reader):
    without, _ = words(reader, image_row())
    one, answer = words(reader, image_row("red.png"))
    two, _ = words(reader, image_row("red.png", "blue.png"))
    assert (len(one), len(two)) == (len(without) + TOKENS_AN_IMAGE, len(without) + 2 * TOKENS_AN_IMAGE)
    assert answer == "screen<|im_end|>"


def test_images_of_several_turns_leave_every_answer_in_its_place(reader):
    first, second = image_row("red.png"), image_row("blue.png", question="and now", answer="login")
    row = {"messages": [*first["messages"], *second["messages"]]}
    ids, (last, every) = reader.read(row, [Policy(), Policy(all_turns=True)])
    said = reader.processor.tokenizer.decode([token for token, bit in zip(ids, every, strict=True) if bit])
    assert said == "screen<|im_end|>login<|im_end|>"
    assert sum(last) < sum(every)


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        (image_row("green.png"), "the dataset does not hold"),
        (image_row("red.png", question="what is <image> here"), "2 places for images and the row names 1"),
    ],
)
def test_an_image_that_is_not_there_or_has_no_place_refuses_the_row(reader, row, reason):
    with pytest.raises(MaskRefused, match=reason):
        reader.read(row, [Policy()])


def test_an_image_that_cannot_be_read_refuses_the_row_by_its_name(reader, image_model, tmp_path):
    (tmp_path / "broken").write_bytes(b"\x89PNG\r\n\x1a\n????")
    broken = ImageReader(image_model, ChatTemplate(load_tokenizer(image_model)), {"a.png": str(tmp_path / "broken")})
    with pytest.raises(MaskRefused, match=r"the image a\.png cannot be read"):
        broken.read(image_row("a.png"), [Policy()])


def test_a_model_that_reads_text_refuses_images(base_model, tokenizer):
    with pytest.raises(JobFailure) as info:
        ImageReader(base_model, ChatTemplate(tokenizer), {})
    assert info.value.code == "base_model_refused"
    assert "image-text" in info.value.hint


@pytest.fixture
def read(reader, write_rows):
    def read(rows, *, limit=512, truncation="error"):
        return read_image_rows([write_rows(rows)], reader, Reading(Policy(), limit, truncation), lambda _done: None)

    return read


@pytest.mark.requirement("R091", "R092", "R095")
def test_image_tokens_make_a_row_too_long_refused_by_name_or_left_out(read):
    rows = [TEXT_ROW, image_row("red.png", "blue.png")]
    with pytest.raises(JobFailure, match="1 row longer than maxSeqLength 40: line 2 ") as info:
        read(rows, limit=40)
    assert info.value.code == "row_too_long"
    kept = read(rows, limit=40, truncation="drop")
    assert (len(kept), kept.too_long) == (1, 1)


@pytest.mark.requirement("R319", "R320")
def test_a_row_that_offers_tools_is_refused_in_a_dataset_with_images(read):
    tool = {"type": "function", "function": {"name": "track", "parameters": {}}}
    with pytest.raises(JobFailure, match="line 2: the row offers tools"):
        read([image_row("red.png"), {**TEXT_ROW, "tools": [tool]}])


@pytest.mark.requirement("R320")
@pytest.mark.parametrize("with_tools", ["training", "validation"])
def test_tools_are_refused_in_each_dataset_of_a_run_over_images_images_in_it_or_not(
    tmp_path, plan_of, write_rows, image_model, with_tools
):
    tool = {"type": "function", "function": {"name": "track", "parameters": {}}}
    rows = {"training": [image_row("red.png"), TEXT_ROW], "validation": [TEXT_ROW, TEXT_ROW]}
    rows[with_tools] = [rows[with_tools][0], {**TEXT_ROW, "tools": [tool]}]
    plan = plan_of(write_rows(rows["training"]))
    plan["validation"] = {"files": [str(write_rows(rows["validation"], "validation.jsonl"))]}
    with pytest.raises(JobFailure, match="line 2: the row offers tools, and a run over images renders none"):
        read_run_rows(Job(jobs.prepare(tmp_path / "attempt", plan)), ChatTemplate(load_tokenizer(image_model)))


@pytest.mark.requirement("R324")
def test_a_row_that_the_registry_would_refuse_is_refused_by_its_line(read):
    unanswered = {"messages": image_row("red.png")["messages"][:1]}
    with pytest.raises(JobFailure, match=r'line 2: messages.*The last message is from "user"') as info:
        read([image_row("red.png"), unanswered])
    assert info.value.code == "bad_row"


def test_a_pass_holds_the_rows_tokens_their_labels_and_their_pixels(read):
    rows = read([image_row("red.png"), image_row("red.png", "blue.png", answer="login and"), TEXT_ROW])
    passes = rows.layout(3).passes([[0], [1], [2]])
    assert len(passes) == 2
    pictured, text = passes
    assert pictured["pixel_values"].shape[0] == 3
    assert "pixel_values" not in text
    for at in (0, 1):
        ids, labels = rows.row(at)
        assert pictured["input_ids"][at, : len(ids)].tolist() == ids.tolist()
        assert pictured["labels"][at, : len(ids)].tolist() == labels.tolist()
    assert (pictured["labels"][0, len(rows.row(0)[0]) :] == IGNORED).all()
    assert text["labels"].tolist() == [rows.row(2)[1].tolist()]


def test_a_run_over_images_trains_the_language_backbone_and_looks_at_the_pixels(tmp_path, plan_of, write_rows):
    file = write_rows([image_row("red.png", answer="red"), image_row("blue.png", answer="blue"), TEXT_ROW])
    changes = {"config.hyperparams.training.epochs": 4, "config.data.shuffle": False}
    attempt = jobs.run(tmp_path / "attempt", plan_of(file, **changes))
    (resolved,) = (event["resolved"] for event in tiny.events_of(attempt, "engine_config"))
    assert resolved["path"]["kind"] == "plain"
    assert resolved["architecture"] == "LlavaForConditionalGeneration"
    losses = jobs.metrics(attempt, "loss")
    assert losses[-1] < losses[0]
    (finished,) = tiny.events_of(attempt, "finished")
    adapter = load_file(attempt / finished["adapter"] / "adapter_model.safetensors")
    assert adapter
    assert all("language_model" in name for name in adapter)


def test_other_pixels_give_another_loss(read, image_model):
    model = load_model(image_model, device="cpu").eval()
    passes = read([image_row("red.png"), image_row("blue.png")]).layout(1).passes([[0], [1]])
    with torch.inference_mode():
        red, blue = (float(model(**part).loss) for part in passes)
    assert red != blue


@pytest.mark.requirement("R101")
@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"config.data.truncation": "oldest"}, "data.truncation is oldest"),
        ({"config.data.packing": True}, "data.packing is on"),
        ({"config.loss.explicitLossMaskColumn": "weights"}, "explicitLossMaskColumn is weights"),
    ],
)
def test_settings_that_only_text_can_follow_are_refused(tmp_path, plan_of, write_rows, change, reason):
    failure = jobs.failure(jobs.run(tmp_path / "attempt", plan_of(write_rows([image_row("red.png")]), **change)))
    assert (failure["code"], reason in failure["reason"]) == ("unsupported_setting", True)


@pytest.mark.requirement("R092")
def test_an_analysis_counts_rows_with_images_as_the_run_reads_them(tmp_path, image_model, pictures, write_rows, read):
    rows = [image_row("red.png"), image_row("red.png", "blue.png"), image_row("red.png", "blue.png"), TEXT_ROW]
    plan = {
        **tiny.sft_plan(image_model, [write_rows(rows)], **{"dataset.images": pictures}),
        "entry": "analyse",
        "product_version": "0.9.9",
        "processes": 1,
        "out": str(tmp_path / "out"),
    }
    attempt = jobs.run(tmp_path / "attempt", plan)
    report = tiny.events_of(attempt, "finished")[0]["report"]
    measured = np.fromfile(tmp_path / "out" / "lengths.bin", dtype="<i4").reshape(-1, 4)
    found = read(rows)
    assert measured[:, 0].tolist() == found.lengths().tolist()
    assert report["trainedTokens"]["default"] == found.trained_tokens()
    assert report["duplicates"]["exact"] == 1


@pytest.mark.requirement("R332")
def test_a_template_that_reads_parts_renders_the_texts_of_a_dataset_without_images(image_model, write_rows):
    template = ChatTemplate(load_tokenizer(image_model))
    assert template.reads_parts
    assert template.render(TEXT_ROW["messages"]) == (
        "<|im_start|>user\nwhere<|im_end|>\n<|im_start|>assistant\nlate parcel<|im_end|>\n"
    )
    rows = read_tokens([write_rows([TEXT_ROW])], template, Reading(Policy(), 512, "error"), lambda _done: None)
    _, labels = rows.row(0)
    assert template.tokenizer.decode(labels[labels != IGNORED]) == "late parcel<|im_end|>"


@pytest.mark.requirement("R332")
def test_smolvlms_own_template_renders_each_messages_text():
    tokenizer = tokenizer_of((STOCK / "smolvlm.jinja").read_text())
    tokenizer.add_special_tokens({"eos_token": "<end_of_utterance>"})
    template = ChatTemplate(tokenizer)
    assert trained(template, TEXT_ROW["messages"]) == [" late parcel<end_of_utterance>"]
    asked = template.render(TEXT_ROW["messages"][:1], to_answer=True)
    assert asked == "<|im_start|>User: where<end_of_utterance>\nAssistant:"


@pytest.mark.requirement("R332")
def test_an_analysis_measures_the_texts_of_a_dataset_without_images(tmp_path, image_model, write_rows):
    plan = {
        **tiny.sft_plan(image_model, [write_rows([TEXT_ROW, TEXT_ROW])]),
        "entry": "analyse",
        "product_version": "0.9.9",
        "processes": 1,
        "out": str(tmp_path / "out"),
    }
    report = tiny.events_of(jobs.run(tmp_path / "attempt", plan), "finished")[0]["report"]
    whole = "<|im_start|>user\nwhere<|im_end|>\n<|im_start|>assistant\nlate parcel<|im_end|>\n"
    tokenizer = load_tokenizer(image_model)
    assert report["totalTokens"] == 2 * len(tokenizer(whole)["input_ids"])
    assert report["trainedTokens"]["default"] == 2 * len(tokenizer("late parcel<|im_end|>")["input_ids"])
    assert report["templateProblemRows"] == 0


@pytest.mark.requirement("R332")
def test_an_image_text_model_is_asked_rows_of_text(tmp_path, image_model, write_rows):
    plan = tiny.evaluation_plan(image_model, [write_rows([TEXT_ROW, TEXT_ROW])], max_new_tokens=4)
    answers = tiny.events_of(jobs.run(tmp_path / "attempt", plan), "answer")
    prompt = load_tokenizer(image_model)("<|im_start|>user\nwhere<|im_end|>\n<|im_start|>assistant\n")["input_ids"]
    assert [answer["prompt_tokens"] for answer in answers] == [len(prompt)] * 2
    assert answers[0]["answer"] == answers[1]["answer"]


def test_a_prepared_image_text_folder_is_examined_with_its_towers(image_model):
    from optimize_child.bases.checks import examine

    facts = examine(image_model, {})
    assert facts["architecture"] == "LlavaForConditionalGeneration"
    assert facts["context_length"] == 2048


def the_registrys_reader():
    """What registration reads images with; the file needs nothing but the standard library and Pillow."""
    path = Path(__file__).resolve().parents[2] / "datasets" / "image_bytes.py"
    spec = importlib.util.spec_from_file_location("image_bytes_of_the_registry", path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def a_picture(kind, **options):
    held = io.BytesIO()
    Image.radial_gradient("L").resize((40, 30)).convert("RGB").save(held, kind, **options)
    return held.getvalue()


@pytest.mark.requirement("R324")
@pytest.mark.parametrize("data", [a_picture("PNG"), a_picture("JPEG"), a_picture("JPEG", progressive=True),
                                  a_picture("WEBP"), a_picture("WEBP", lossless=True)],
                         ids=["png", "jpeg", "progressive", "webp", "lossless"])
def test_a_damaged_image_that_registration_takes_is_one_that_a_job_reads(tmp_path, data):
    registry, numbers, path = the_registrys_reader(), random.Random(len(data)), tmp_path / "image"
    taken = 0
    for _ in range(200):
        at, length = numbers.randrange(len(data)), numbers.randrange(4)
        path.write_bytes(data[:at] + numbers.randbytes(numbers.randrange(3)) + data[at + length:])
        try:
            registry.read_image(path)
        except registry.ImageRefused:
            continue
        taken += 1
        ImageReader._open(SimpleNamespace(_files={"a": path}), "a")
    assert taken
