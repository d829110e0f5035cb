"""The pages of datasets: uploads, refusals line by line, rows, aliases."""

import json

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client
from django.urls import reverse

from datasets import overlaps
from datasets.models import ExampleSet
from registry.models import Version
from tests import factories as make
from tests.web import scenes

pytestmark = pytest.mark.django_db


def send(client, data, reference="triage/train", **more):
    file = SimpleUploadedFile("train.jsonl", data)
    return client.post(reverse("datasets:upload"), {"reference": reference, "file": file}, **more)


def test_an_upload_registers_a_version_and_shows_it(operator):
    answer = send(operator, make.chat_rows(5))
    assert answer["Location"] == "/datasets/triage/train?version=v1"
    text = operator.get(answer["Location"]).content.decode()
    assert "triage/train:v1 is registered." in text
    assert text.count('aria-label="Row ') == 5
    again = send(operator, make.chat_rows(5))
    assert "held these examples already" in operator.get(again["Location"]).content.decode()


def test_the_page_of_uploads_names_the_command_for_other_tools_files(operator):
    text = operator.get(reverse("datasets:upload") + "?reference=triage/train").content.decode()
    assert "./optimize registry datasets register triage/train -f FILE --import" in text


def test_who_stopped_an_upload_can_give_it_up_on_the_page(operator):
    from datasets.models import Upload

    kept, given_up = (make.open_upload(f"triage/{name}", by="a-operator") for name in ("kept", "more"))
    page, address = reverse("datasets:upload"), reverse("datasets:upload-abandon", args=[given_up.pk])
    text = operator.get(page).content.decode()
    assert f'hx-post="{address}"' in text and 'hx-confirm="Give the upload of triage/more up?' in text
    answer = operator.post(address)
    assert answer["Location"] == page
    text = operator.get(page).content.decode()
    assert "The upload of triage/more was given up." in text
    assert reverse("datasets:upload-abandon", args=[kept.pk]) in text and address not in text
    assert list(Upload.objects.all()) == [kept]
    assert operator.post(address).status_code == 404


def test_the_page_of_uploads_takes_images_and_says_what_of_a_stopped_upload_is_kept(operator):
    text = operator.get(reverse("datasets:upload")).content.decode()
    assert 'webkitdirectory data-upload-images' in text and 'multiple accept=".png,.jpg,.jpeg,.webp"' in text
    assert "A ZIP is sent at once; stopped, it is sent anew." in text


def test_every_bad_line_stands_beside_the_form_and_the_form_stays_filled(operator):
    rows = make.chat_rows(3) + b'{"messages": []}\n' + b"not json\n"
    answer = send(operator, rows, headers={"HX-Request": "true"})
    text = answer.content.decode()
    assert answer.status_code == 422
    assert "2 of 5 lines are not a chat row." in text
    assert "Nothing was registered." in text
    assert 'value="triage/train"' in text and "<html" not in text
    assert not Version.objects.exists()


@pytest.mark.requirement("R304")
def test_a_file_that_is_too_large_is_refused_before_it_is_read(operator, monkeypatch):
    monkeypatch.setenv("OPTIMIZE_TRAINER_DATASETS_MAX_BYTES", "1000")
    answer = send(operator, b"x" * 1_100_000)
    assert answer.status_code == 413
    assert "is larger than 1,000 bytes" in answer.content.decode()


def test_a_form_without_a_file_says_so(operator):
    answer = operator.post(reverse("datasets:upload"), {"reference": "a/b"})
    assert answer.status_code == 422
    assert b"No file was chosen." in answer.content


def test_a_strangers_upload_is_not_kept(tmp_path, settings):
    settings.FILE_UPLOAD_TEMP_DIR = str(tmp_path)
    answer = send(Client(), make.chat_rows(5))
    assert answer.status_code == 302 and "/login" in answer["Location"]
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["../x", "a/../b", "a/b/c", "", "a/B C", "a/b:v1", "a/<script>alert(1)</script>",
                                  "a/" + "x" * 300])
def test_names_that_are_none_are_refused(operator, name):
    answer = send(operator, make.chat_rows(2), reference=name)
    assert answer.status_code in {400, 422}, answer.status_code
    assert b"<script>alert" not in answer.content


def test_rows_are_shown_as_conversations_with_tools_and_escaped(viewer):
    make.make_dataset("acme/tools", scenes.tool_rows())
    text = viewer.get(reverse("datasets:detail", args=["acme", "tools"])).content.decode()
    assert "&lt;b&gt;#0&lt;/b&gt;" in text and "<b>#0</b>" not in text
    assert 'get_weather({&quot;city&quot;: &quot;Lisboa&quot;})' in text
    assert "1 tool offered" in text and "answers <code>call_0</code>" in text


def test_rows_page_and_search(viewer):
    make.make_dataset("triage/train", 25)
    address = reverse("datasets:detail", args=["triage", "train"])
    first = viewer.get(address, headers={"HX-Request": "true"}).content.decode()
    assert first.count('aria-label="Row ') == 10 and "offset=10" in first
    found = viewer.get(address, {"q": "train24"}, headers={"HX-Request": "true"}).content.decode()
    assert found.count('aria-label="Row ') == 1
    assert "No row says those words" in viewer.get(address, {"q": "zebra"}).content.decode()


def test_a_system_message_that_repeats_is_folded(viewer):
    scenes.workload(4)
    text = viewer.get(reverse("datasets:detail", args=[scenes.WORKLOAD, "train"])).content.decode()
    assert text.count("as in the row above") == 9


def test_an_operator_points_an_alias_and_a_bad_one_is_refused(operator):
    make.make_dataset("triage/train", 3)
    address = reverse("datasets:alias", args=["triage", "train"])
    assert operator.post(address, {"alias": "current", "version": "v1"}).status_code == 302
    page = f"{reverse('datasets:detail', args=['triage', 'train'])}?tab=versions"
    shown = operator.get(page).content.decode()
    assert ">current</span>" in shown and "Remove the alias current" in shown
    assert operator.post(address, {"alias": "latest", "version": "v1"}).status_code in {400, 409, 422}
    removed = operator.post(reverse("datasets:alias-remove", args=["triage", "train"]),
                            {"alias": "current", "version": "v1"})
    assert removed.status_code == 302
    history = operator.get(page).content.decode()
    assert "Remove the alias" not in history and history.count("<td>current</td>") == 2 and "removed" in history


def test_an_operator_keeps_a_note_on_a_version(operator):
    make.make_dataset("triage/train", 3)
    operator.post(reverse("datasets:note", args=["triage", "train"]), {"description": "From <May>", "version": "v1"})
    shown = operator.get(reverse("datasets:detail", args=["triage", "train"])).content.decode()
    assert "From &lt;May&gt;" in shown


def test_a_dataset_says_where_it_is_used_and_what_came_from_it(viewer):
    make.make_device("cpu")
    scenes.base_model()
    scenes.workload(6)
    run = scenes.submit(steps=24, configName="uses-it")
    address = reverse("datasets:detail", args=[scenes.WORKLOAD, "train"]) + "?tab=lineage"
    text = viewer.get(address).content.decode()
    assert "uses-it" in text and reverse("runs:detail", args=[run.pk]) in text
    assert "Judges its models by it" in viewer.get(
        reverse("datasets:detail", args=[scenes.WORKLOAD, "eval"]) + "?tab=lineage").content.decode()


def test_pairs_stand_side_by_side(viewer):
    answer = {"role": "assistant", "content": "A <b>good</b> answer"}
    pair = {"prompt": [{"role": "user", "content": "Which?"}], "chosen": answer,
            "rejected": answer | {"content": "A bad one"}}
    make.make_dataset("triage/pairs", json.dumps(pair).encode())
    text = viewer.get(reverse("datasets:detail", args=["triage", "pairs"])).content.decode()
    assert 'aria-label="Chosen answer"' in text and "A &lt;b&gt;good&lt;/b&gt; answer" in text
    assert 'aria-label="Rejected answer"' in text and "<dt>Pairs</dt>" in text


def test_a_large_row_is_shown_in_part_with_the_way_to_its_bytes(viewer):
    large = make.chat_rows(1).replace(b"ticket 0", b"word " * 300_000)
    make.make_dataset("triage/large", large + make.chat_rows(2))
    answer = viewer.get(reverse("datasets:detail", args=["triage", "large"]))
    text = answer.content.decode()
    assert "Shown in part: the row has 1.4 MiB" in text
    assert "/v1/registry/datasets/triage/large/versions/v1/rows/0" in text
    assert len(answer.content) < 60_000


def test_a_row_that_repeats_links_to_the_others(viewer):
    make.make_dataset("triage/twice", make.chat_rows(2) + make.chat_rows(1))
    text = viewer.get(reverse("datasets:detail", args=["triage", "twice"])).content.decode()
    assert 'again at row <a href="?version=v1&amp;offset=2">2</a>' in text


def test_a_search_that_found_nothing_in_its_time_goes_on_by_itself(viewer, monkeypatch):
    from datasets.row_pages import Budget

    make.make_dataset("triage/searched", 40)
    monkeypatch.setattr("datasets.row_index.MARK_BYTES", 300)
    monkeypatch.setattr("datasets.row_pages.Budget", lambda: Budget(num_bytes=300))
    text = viewer.get(reverse("datasets:detail", args=["triage", "searched"]), {"q": "searched39"}).content.decode()
    assert "still looking" in text and 'hx-trigger="load"' in text
    assert "Look further" in text


def test_the_leakage_part_names_rows_of_both_sides_and_links_to_them(viewer):
    scenes.base_model()
    scenes.workload(8)
    rows = [json.loads(line) for line in scenes.lines("eval.jsonl", 3)]
    near = json.loads(json.dumps(rows[1]))
    near["messages"][1]["content"] += " thanks"
    make.make_dataset(f"{scenes.WORKLOAD}/leaky", "\n".join(
        [make.chat_rows(2).decode().strip(), json.dumps(rows[0]), json.dumps(near)]).encode())
    address = reverse("datasets:detail", args=[scenes.WORKLOAD, "leaky"]) + "?tab=leakage"
    text = viewer.get(address).content.decode()
    assert "would flatter a model" in text
    assert 'href="?version=v1&amp;offset=2"' in text
    assert f"/datasets/{scenes.WORKLOAD}/eval?version=v1&amp;offset=0" in text
    assert "Asked nearly so: 1 row" in text
    form = {"kind": "run", "workload": scenes.WORKLOAD, "baseModel": scenes.BASE,
            "config.dataset": f"{scenes.WORKLOAD}/leaky"}
    plan = viewer.post(reverse("runs:check"), form).content.decode()
    assert "1 training row asks what a row of" in plan and "tab=leakage" in plan
    clean = viewer.get(reverse("datasets:detail", args=[scenes.WORKLOAD, "train"]) + "?tab=leakage").content.decode()
    assert f"{scenes.WORKLOAD}/eval:v1" in clean


def test_a_plan_says_how_many_rows_were_compared_where_none_of_them_leaks(viewer, monkeypatch):
    monkeypatch.setattr(overlaps, "QUICK_ROWS", 2)
    scenes.base_model()
    scenes.workload(8)
    make.make_dataset(f"{scenes.WORKLOAD}/other", 4)
    plan = viewer.post(reverse("runs:check"), {"kind": "run", "workload": scenes.WORKLOAD, "baseModel": scenes.BASE,
                                               "config.dataset": f"{scenes.WORKLOAD}/other"}).content.decode()
    assert "No training row asks what a row of" in plan and "Compared 2 of 4 rows with" in plan


def test_what_rows_hold_shows_tokens_of_an_epoch_with_their_cost_and_pictures_of_the_analysis(viewer):
    make.make_device("cpu")
    make.make_base_model()
    version = make.make_dataset("triage/train", 4)
    make.analyze(version, [100, 200, 300, 400], languages=[{"language": "English", "rows": 3},
                                                           {"language": "Deutsch", "rows": 1}],
                 labels=[{"field": "queue", "values": [{"value": "billing", "rows": 3},
                                                       {"value": "other", "rows": 1}]}],
                 duplicates={"exact": 7, "near": 5, "examples": [
                     {"kind": "near", "row": 3, "line": 4, "of": {"row": 1, "line": 2}}]})
    text = viewer.get(reverse("datasets:detail", args=["triage", "train"]) + "?tab=contents").content.decode()
    for words in ("1,000", "Deutsch", "25.0%", "billing", "75.0%", "Nearly equal", "nearly equals row", "Cost", "Time"):
        assert words in text, words
    rows = viewer.get(reverse("datasets:detail", args=["triage", "train"])).content.decode()
    assert "100 tokens, 1 trained" in rows


def test_parts_that_only_text_has_say_so_for_token_rows(viewer):
    version = make.make_dataset("triage/train", 3)
    ExampleSet.objects.filter(pk=version.content_hash).update(format="prepared-tokens-v1", statistics={},
                                                              details={"longestRow": 700})
    page = reverse("datasets:detail", args=["triage", "train"])
    assert "these are prepared-tokens-v1 rows" in viewer.get(f"{page}?tab=leakage&other=triage/train").content.decode()
    contents = viewer.get(f"{page}?tab=contents").content.decode()
    assert "the longest has 700 tokens" in contents and "datasets analyze" not in contents
