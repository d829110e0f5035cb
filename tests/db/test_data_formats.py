"""Data of every format in the registry: what a version holds and counts, its objects, its images."""

import hashlib
import json
from pathlib import Path

import orjson
import pytest
from django.test import Client

from datasets import images as image_store
from datasets.errors import DatasetInvalid, ImageInvalid
from datasets.images import get_image, missing_images, put_image, put_manifest
from datasets.management.commands.datasets import Command as Datasets
from datasets.models import ExampleSet, Image
from datasets.operations import register_dataset
from datasets.plan import dataset_part
from datasets.queries import dataset_files
from datasets.token_rows import TokenFile, TokenFiles
from evaluations.datasets import check_scorable
from evaluations.errors import AnswerCallsTools, DatasetNotScorable
from optimize_site.kernel.auth import LOCAL, LOCAL_SECRET, Actor
from optimize_site.kernel.errors import Forbidden, InvalidInput
from registry.management.commands.registry import Command as Registry
from registry.queries import resolve_version
from tests.archives import DIGEST, archive, items, kept, png, prepared
from tests.factories import TINY, make_base_model, make_dataset

pytestmark = pytest.mark.django_db
ASKED, BETTER, WORSE = ({"role": role, "content": text} for role, text in
                        (("user", "a"), ("assistant", "b"), ("assistant", "c")))
PAIR = {"prompt": [ASKED], "chosen": BETTER, "rejected": WORSE}
ROW = {"messages": [ASKED, BETTER]}
TOOL = {"type": "function", "function": {"name": "track"}}


def lines(*rows):
    return b"".join(json.dumps(row).encode() + b"\n" for row in rows)


def pictured(*paths):
    content = [*({"type": "image", "path": path} for path in paths), {"type": "text", "text": "?"}]
    return {"messages": [{"role": "user", "content": content}, BETTER]}


def api(method, path, body=None):
    client = Client(headers={"Authorization": f"Bearer {LOCAL_SECRET}"})
    if method == "get":
        return client.get(path)
    raw = isinstance(body, bytes)
    return client.post(path, data=body if raw else json.dumps(body),
                       content_type="application/octet-stream" if raw else "application/json")


def printed(noun, capsys, *argv):
    assert noun().run([str(part) for part in argv]) == 0
    return capsys.readouterr().out


# Pairs, and rows that offer tools


@pytest.mark.requirement("R305", "R306")
def test_a_version_of_pairs_counts_them_wherever_it_is_shown(capsys):
    version = make_dataset("triage/pairs", lines(PAIR, PAIR | {"rejected": ASKED | BETTER | {"content": "d"}}))
    assert version.format == "preference-jsonl-v1"
    shown = api("get", "/v1/registry/datasets/triage/pairs/versions/v1").json()
    assert (shown["pairCount"], shown["exampleCount"], shown["toolRows"]) == (2, 2, 0)
    assert api("get", "/v1/registry/datasets/triage/pairs/versions").json()["versions"][0]["pairCount"] == 2
    assert "Pairs             2" in printed(Registry, capsys, "datasets", "get", "triage/pairs:v1")
    assert "2 pairs" in printed(Registry, capsys, "datasets", "versions", "triage/pairs")
    assert "Pairs             2" in printed(Datasets, capsys, "get", version.content_hash[:12])


@pytest.mark.requirement("R305")
def test_a_pair_that_cannot_be_used_is_refused_by_its_line():
    with pytest.raises(DatasetInvalid) as refused:
        make_dataset("triage/pairs", lines(PAIR, PAIR | {"rejected": BETTER}))
    assert refused.value.problems[0].path == "line 2: rejected"
    assert not ExampleSet.objects.exists()


@pytest.mark.requirement("R305", "R306")
def test_pairs_come_in_shards_too_and_a_chat_row_among_them_is_refused_by_its_line(tmp_path, capsys):
    pairs = [PAIR | {"chosen": BETTER | {"content": str(number)}} for number in range(20)]
    argv = ["datasets", "register", "triage/pairs", "--shard-size", "1KiB", "-o", "json", "-f"]
    made = json.loads(printed(Registry, capsys, *argv, kept(tmp_path, lines(*pairs), "pairs.jsonl")))
    assert (made["pairCount"], made["format"]) == (20, "preference-jsonl-v1")
    assert [item["path"] for item in made["objects"]][:2] == ["examples-00000.jsonl", "examples-00001.jsonl"]
    mixed = kept(tmp_path, lines(*pairs, {"messages": [ASKED, BETTER]}), "mixed.jsonl")
    assert Registry().run([*argv, str(mixed)]) == 3
    told = "".join(capsys.readouterr())
    assert "line 21" in told and "not both" in told
    assert Registry().run(["datasets", "register", "triage/pairs", "-f", str(mixed)]) == 3


@pytest.mark.requirement("R317")
def test_rows_that_offer_tools_are_counted_and_shown(capsys):
    row = {"messages": [ASKED, BETTER]}
    version = make_dataset("triage/tools", lines(row | {"tools": [TOOL]}, row, row | {"tools": []}))
    assert "1 rows offer tools" in printed(Registry, capsys, "datasets", "get", "triage/tools:v1")
    ExampleSet.objects.filter(pk=version.content_hash).update(num_tool_rows=None)
    assert "Tools             not counted" in printed(Registry, capsys, "datasets", "get", "triage/tools:v1")
    assert "not counted" in printed(Registry, capsys, "datasets", "versions", "triage/tools")


# Archives


@pytest.mark.requirement("R327")
def test_prepared_rows_are_registered_with_what_made_them(capsys):
    done = register_dataset("triage/tokens", [prepared()], actor=LOCAL)
    assert (done.version.format, done.examples.num_examples, done.examples.num_tool_rows) == (
        "prepared-tokens-v1", 2, None)
    shown = api("get", "/v1/registry/datasets/triage/tokens/versions/v1").json()
    assert shown["details"]["chatTemplateSha256"] == DIGEST and shown["details"]["longestRow"] == 3
    assert "lengths" not in shown["details"]
    assert [item["path"] for item in shown["objects"]] == ["prepared.json", "rows.parquet"]
    told = printed(Registry, capsys, "datasets", "get", "triage/tokens:v1")
    assert "Token rows        2" in told and "Longest row       3 tokens" in told and "Tools" not in told
    assert len(dataset_part(done.examples, name="d")["files"]) == 1


def test_the_same_tokens_under_another_template_are_another_dataset(monkeypatch):
    found = TokenFiles([TokenFile(2, 5, 3, [[2, 1], [3, 1]], [[3, 1], [2, 2]])], [], 0)
    monkeypatch.setattr("datasets.formats.prepared.measure_files", lambda paths: found)
    first, again, other = (register_dataset("triage/tokens", [prepared(chatTemplateSha256=digest)], actor=LOCAL)
                           for digest in (DIGEST, DIGEST, "e" * 64))
    assert (first.is_new, again.is_new, other.is_new) == (True, False, True)
    assert first.version.content_hash != other.version.content_hash


@pytest.mark.requirement("R326")
def test_rows_are_described_under_the_template_that_runs_over_the_model_render_under(tmp_path, capsys, monkeypatch):
    found = TokenFiles([TokenFile(2, 5, 3, [[2, 1], [3, 1]], [[3, 1], [2, 2]])], [], 0)
    monkeypatch.setattr("datasets.formats.prepared.measure_files", lambda paths: found)
    rows = kept(tmp_path, b"", "rows.parquet")
    argv = ["describe-prepared", rows, "--model", TINY, "--force", "--out", tmp_path / "prepared.json"]
    assert Datasets().run(list(map(str, argv))) == 2 and "--chat-template" in capsys.readouterr().err
    base = make_base_model()
    assert Datasets().run(list(map(str, argv))) == 2 and "was not prepared on this box yet" in capsys.readouterr().err
    type(base).objects.update(facts={"contextLength": 4096, "chatTemplateSha256": DIGEST})
    template = kept(tmp_path, b"{{ other }}\n", "other.jinja")
    for named, digest in (((), DIGEST), (("--chat-template", template), hashlib.sha256(b"{{ other }}\n").hexdigest())):
        told = json.loads(printed(Datasets, capsys, *argv, *named, "-o", "json"))
        assert (told["tokenizer"]["revision"], told["chatTemplateSha256"]) == ("rev-1", digest)
    assert Datasets().run([*map(str, argv), "--revision", "rev-2"]) == 2
    assert "rev-1" in capsys.readouterr().err


def test_an_evaluation_says_which_rows_it_needs():
    register_dataset("shop/other", [lines(PAIR)], actor=LOCAL)
    with pytest.raises(DatasetNotScorable, match="an evaluation needs chat rows or evaluation items"):
        check_scorable(resolve_version("dataset", "shop/other"))


def test_items_that_are_chat_rows_can_be_asked():
    asked = {"id": "refund-7", "level": 2, **ROW}
    register_dataset("shop/items", [items(**{"items.jsonl": lines(asked, ROW).decode()})], actor=LOCAL)
    version = resolve_version("dataset", "shop/items")
    assert check_scorable(version) == 2
    # The job reads the items as the rows they are, and nothing else of the version.
    (file,) = dataset_files(version)
    assert [json.loads(line) for line in Path(file).read_bytes().splitlines()] == [asked, ROW]


def test_items_that_ask_in_another_way_are_named_before_an_evaluation_starts():
    register_dataset("shop/items", [items(**{"items.jsonl": lines(ROW, {"input": "?"}).decode()})], actor=LOCAL)
    with pytest.raises(DatasetNotScorable, match="1 of the 2 items of shop/items:v1 cannot be asked") as refused:
        check_scorable(resolve_version("dataset", "shop/items"))
    assert refused.value.problems[0].path.startswith("line 2 of items.jsonl")


def test_an_item_whose_answer_calls_tools_is_refused_as_a_row_is():
    calls = [{"id": "1", "type": "function", "function": {"name": "look_up", "arguments": {}}}]
    calling = {"messages": [*ROW["messages"][:-1], {"role": "assistant", "tool_calls": calls}]}
    register_dataset("shop/items", [items(**{"items.jsonl": lines(calling).decode()})], actor=LOCAL)
    with pytest.raises(AnswerCallsTools, match="lines 1"):
        check_scorable(resolve_version("dataset", "shop/items"))


def test_evaluation_items_are_registered_and_their_objects_read(capsysbinary):
    register_dataset("shop/items", [items()], actor=LOCAL)
    shown = api("get", "/v1/registry/datasets/shop/items/versions/v1").json()
    assert (shown["format"], shown["exampleCount"], shown["details"]["fixture"]) == (
        "eval-items-v1", 2, "fixtures/shop-db.json")
    assert printed(Registry, capsysbinary, "datasets", "object", "shop/items", "fixtures/shop-db.json") == (
        b'{"orders": []}')
    assert "Items             2" in printed(Registry, capsysbinary, "datasets", "get", "shop/items:v1").decode()


@pytest.mark.parametrize("data", [items(**{"items.jsonl": "{}"}), prepared(longestRow=9), b"PK\x03\x04broken"],
                         ids=["a bad item", "a wrong description", "a broken archive"])
def test_nothing_is_kept_of_an_archive_that_is_refused(data):
    answer = api("post", "/v1/registry/datasets/triage/x/versions", data)
    assert answer.status_code == 422 and not ExampleSet.objects.exists()


# Images


def test_an_image_is_kept_once_and_given_back():
    sent = api("post", "/v1/registry/images", png())
    sha256 = hashlib.sha256(png()).hexdigest()
    assert sent.status_code == 201
    assert sent.json() == {"sha256": sha256, "mediaType": "image/png", "width": 3, "height": 2,
                           "sizeBytes": len(png())}
    assert api("post", "/v1/registry/images", png()).status_code == 200
    assert Image.objects.count() == 1
    given = api("get", f"/v1/registry/images/{sha256}")
    assert (b"".join(given.streaming_content), given["Content-Type"]) == (png(), "image/png")
    assert api("get", f"/v1/registry/images/{'0' * 64}").status_code == 404
    assert api("post", "/v1/registry/images/missing", {"sha256s": [sha256, "0" * 64, "0" * 64]}).json() == {
        "missing": ["0" * 64]}


def test_what_is_no_image_is_not_kept():
    answer = api("post", "/v1/registry/images", b"<svg/>")
    assert (answer.status_code, answer.json()["code"]) == (422, "image_invalid")
    assert not Image.objects.exists()
    with pytest.raises(InvalidInput):
        missing_images(["0" * 64] * 1001, actor=LOCAL)
    viewer = Actor("v", "viewer", None)
    for ask in (lambda: put_image([png()], actor=viewer), lambda: put_manifest([b""], actor=viewer),
                lambda: missing_images([], actor=viewer)):
        with pytest.raises(Forbidden):
            ask()


def manifest(**paths):
    return lines(*({"path": path.replace("_", "."), "sha256": sha256} for path, sha256 in paths.items()))


def test_rows_with_images_take_them_from_the_list_sent_with_them():
    red, blue = (put_image([png(colour=colour)], actor=LOCAL)[0].pk for colour in (b"\xff\0\0", b"\0\0\xff"))
    list_, number = put_manifest([manifest(a_png=red, b_png=blue, unused_png=red)], actor=LOCAL)
    assert number == 3
    rows = lines(pictured("a.png"), pictured("b.png", "a.png"))
    done = register_dataset("pages/train", [rows], actor=LOCAL, images=list_)
    assert done.examples.num_images == 2
    named = f"\na.png\0{red}\nb.png\0{blue}".encode()
    assert done.version.content_hash == hashlib.sha256(rows.rstrip(b"\n") + named).hexdigest()
    assert {item["path"]: item["sha256"] for item in done.version.objects_listing} | {
        "examples.jsonl": ""} == {"examples.jsonl": "", "a.png": red, "b.png": blue}
    assert dataset_part(done.examples, name="d")["images"]["a.png"].endswith(red)
    swapped, _ = put_manifest([manifest(a_png=blue, b_png=red)], actor=LOCAL)
    other = register_dataset("pages/train", [rows], actor=LOCAL, images=swapped)
    assert other.is_new and other.version.content_hash != done.version.content_hash
    assert "images" not in api("get", "/v1/registry/datasets/pages/train/versions/v1").json()["details"]


def test_an_image_that_was_not_sent_is_named_by_the_first_line_that_shows_it():
    red = put_image([png()], actor=LOCAL)[0].pk
    list_, _ = put_manifest([manifest(a_png=red)], actor=LOCAL)
    rows = lines(pictured("a.png"), pictured("a.png", "b.png"), pictured("b.png"))
    for images, lines_ in ((list_, ["line 2"]), ("", ["line 1", "line 2"])):
        with pytest.raises(DatasetInvalid) as refused:
            register_dataset("pages/train", [rows], actor=LOCAL, images=images)
        assert [(problem.path, problem.code) for problem in refused.value.problems] == [
            (line, "image_missing") for line in lines_]
    assert not ExampleSet.objects.exists()


@pytest.mark.parametrize("path", ["examples.jsonl", "examples-00000.jsonl"])
def test_no_image_has_the_name_of_a_file_of_rows(path):
    red = put_image([png()], actor=LOCAL)[0].pk
    list_, _ = put_manifest([lines({"path": path, "sha256": red})], actor=LOCAL)
    with pytest.raises(DatasetInvalid) as refused:
        register_dataset("pages/train", [lines(pictured(path))], actor=LOCAL, images=list_)
    assert [(found.path, found.code) for found in refused.value.problems] == [
        ("line 1: messages[0].content[0].path", "image_path_invalid")]


@pytest.mark.parametrize("line", [b'{"path": "../a.png", "sha256": "0"}', b'{"path": "a.png"}', b"[1]", b"{",
                                  lines({"path": "a.png", "sha256": "0" * 64}),
                                  lines(*({"path": "a.png", "sha256": digit * 64} for digit in "01"))])
def test_a_list_of_images_names_images_that_are_here(line):
    with pytest.raises(ImageInvalid) as refused:
        put_manifest([line], actor=LOCAL)
    assert refused.value.hint


def test_a_list_of_images_has_an_end(monkeypatch):
    monkeypatch.setattr(image_store, "MAX_MANIFEST_BYTES", 100)
    with pytest.raises(ImageInvalid, match="100 bytes"):
        put_manifest([b" " * 60] * 2, actor=LOCAL)


@pytest.mark.parametrize("name", ["dataset.json/", "prepared.json/"])
def test_a_folder_named_as_a_description_describes_nothing(name):
    answer = api("post", "/v1/registry/datasets/triage/x/versions", archive({name: "", "rows.jsonl": "{}"}))
    assert (answer.status_code, answer.json()["problems"][0]["code"]) == (422, "zip_file")


@pytest.mark.parametrize("sign", [b"\x0b", b"\x0c", b"\x0b \x0c"])
def test_a_line_of_space_that_json_does_not_know_is_no_blank_line(sign):
    answer = api("post", "/v1/registry/datasets/triage/x/versions", sign + b"\n" + lines({"messages": [ASKED, BETTER]}))
    assert (answer.status_code, answer.json()["problems"][0]["path"]) == (422, "line 1")


def test_registering_a_file_sends_the_images_beside_it_once(tmp_path, capsys):
    (tmp_path / "images").mkdir()
    kept(tmp_path / "images", png(), "a.png")
    kept(tmp_path / "images", png(4, 4), "b.png")
    rows = kept(tmp_path, lines(pictured("images/a.png"), pictured("images/b.png")), "rows.jsonl")
    argv = ["datasets", "register", "pages/train", "-f", rows, "-o", "json"]
    looked = json.loads(printed(Registry, capsys, *argv, "--no-upload"))
    assert looked["missingImages"] == ["images/a.png", "images/b.png"] and not Image.objects.exists()
    pushed = json.loads(printed(Registry, capsys, "images", "push", tmp_path / "images" / "a.png", "-o", "json"))
    assert (pushed["sent"], pushed["held"]) == (1, 0)
    assert json.loads(printed(Registry, capsys, *argv, "--no-upload"))["missingImages"] == ["images/b.png"]
    made = json.loads(printed(Registry, capsys, *argv))
    assert (made["imageCount"], made["contentHash"]) == (2, looked["contentHash"])
    assert "0 images sent, 2 were here already" in printed(Datasets, capsys, "images", "push", tmp_path)
    assert Registry().run(["images", "push", str(tmp_path / "nothing")]) == 2


def test_a_file_of_another_tool_is_registered_as_the_rows_it_gives(tmp_path, capsys):
    source = kept(tmp_path, b"q;a;n\nwhere;there;1\n", "tickets.csv")
    argv = ["datasets", "register", "triage/csv", "-f", source, "--import", "--map", "user=q", "--map", "assistant=a"]
    made = json.loads(printed(Registry, capsys, *argv, "-o", "json"))
    rows = orjson.dumps({"messages": [ASKED | {"content": "where"}, BETTER | {"content": "there"}]})
    assert (made["isNew"], made["exampleCount"]) == (True, 1)
    assert not register_dataset("triage/csv", [rows], actor=LOCAL).is_new
    assert Registry().run([*map(str, argv[:5]), "--import", "sharegpt"]) == 3
    assert Registry().run([*map(str, argv[:5])]) == 3


def test_an_import_that_registers_takes_the_flags_of_one_that_writes_a_file(tmp_path, capsys):
    """Of a folder with two splits, of which one record gives no row; the document carries the import's report."""
    folder = tmp_path / "tickets"
    folder.mkdir()
    for name, where in (("train", "there"), ("test", "elsewhere")):
        (folder / f"{name}.jsonl").write_text(f'{{"q": "where", "a": "{where}", "n": 1, "x": 2}}\n{{"q": "where"}}\n')
    argv = ["datasets", "register", "triage/split", "-f", folder, "--import", "table", "--map", "user=q", "--map",
            "assistant=a", "-o", "json"]
    assert Registry().run(list(map(str, argv))) == 3
    assert "Choose one with --split" in capsys.readouterr().out
    assert Registry().run([*map(str, argv), "--split", "train"]) == 3
    assert "--skip-refused" in capsys.readouterr().out and not ExampleSet.objects.exists()
    argv += ["--split", "train", "--skip-refused", "--keep", "n"]
    looked = json.loads(printed(Registry, capsys, *argv, "--no-upload"))
    made = json.loads(printed(Registry, capsys, *argv))
    report = {key: made["import"][key] for key in ("kind", "records", "written", "refused")}
    assert report == {"kind": "table", "records": 2, "written": 1, "refused": 1}
    assert [field["field"] for field in made["import"]["dropped"]] == ["x"]
    (refused,) = made["import"]["refusedRecords"]
    assert (refused["path"], refused["code"]) == ("record 2: a", "column_missing")
    assert (looked["import"], looked["contentHash"]) == (made["import"], made["contentHash"])
    row = orjson.dumps({"messages": [ASKED | {"content": "where"}, BETTER | {"content": "there"}], "n": 1})
    assert not register_dataset("triage/split", [row], actor=LOCAL).is_new
    capsys.readouterr()
    assert Registry().run([word for word in map(str, argv) if word not in {"-o", "json"}]) == 0
    said = capsys.readouterr().err
    assert "1 record that gives no row left out" in said and f"{refused['path']}: {refused['message']}" in said


@pytest.mark.parametrize("flag", [["--map", "user=q"], ["--keep", "q"], ["--split", "train"], ["--skip-refused"]])
def test_a_flag_of_imports_without_an_import_is_refused(tmp_path, capsys, flag):
    rows = kept(tmp_path, lines({"messages": [ASKED, BETTER]}), "rows.jsonl")
    assert Registry().run(["datasets", "register", "triage/x", "-f", str(rows), *flag]) == 2
    assert f"{flag[0]} requires --import" in capsys.readouterr().err and not ExampleSet.objects.exists()
    assert json.loads(printed(Registry, capsys, "datasets", "register", "triage/x", "-f", rows, "-o", "json"))[
        "import"] is None


def test_a_stranger_sees_no_image():
    sha256 = put_image([png()], actor=LOCAL)[0].pk
    assert Client().get(f"/v1/registry/images/{sha256}").status_code == 401
    assert get_image(sha256).width == 3
