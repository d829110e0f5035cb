"""What an analysis finds beside lengths, of one stretch and of many: repeats, labels, languages."""

import random
import tracemalloc
from itertools import pairwise

import numpy as np
import pytest
from optimize_child.analysis import duplicates
from optimize_child.analysis.duplicates import FingerprintFiles, find_repeats
from optimize_child.analysis.fingerprints import BANDS, HASHES, Fingerprints, digest, fingerprints, words_of
from optimize_child.analysis.labels import MOST_VALUES, Labels
from optimize_child.analysis.languages import language_of

WORDS = [f"w{number}" for number in range(500)]


def texts_with_repeats(seed=0):
    """Texts of sixty words, some of them again exactly and some with a word changed."""
    rng, texts = random.Random(seed), []
    for _ in range(120):
        text = " ".join(rng.choices(WORDS, k=60))
        texts.append(text)
        if rng.random() < 0.3:
            texts.append(text)
        if rng.random() < 0.3:
            texts.append(text + " " + rng.choice(WORDS))
    rng.shuffle(texts)
    return texts


def repeats_of(texts, folder, cut):
    """Repeats of texts whose fingerprints were made in stretches that begin at these places."""
    files = FingerprintFiles(folder)
    with files:
        for start, end in pairwise([0, *cut, len(texts)]):
            part = texts[start:end]
            files.append(fingerprints([digest([text]) for text in part], [words_of(text) for text in part]))
    return find_repeats(files, len(texts), lambda: None)


def shared(one, other):
    """The share of three-word shingles two texts have in common."""
    first, second = ({*zip(words, words[1:], words[2:], strict=False)} for words in (one.split(), other.split()))
    return len(first & second) / len(first | second)


def test_repeats_are_those_that_comparing_every_two_rows_finds(tmp_path):
    texts = texts_with_repeats()
    found = repeats_of(texts, tmp_path, [])
    exact = [row for row, text in enumerate(texts) if text in texts[:row]]
    near = [
        row
        for row, text in enumerate(texts)
        if row not in exact and any(shared(text, other) > 0.9 for other in texts[:row])
    ]
    assert (found.exact, found.near) == (len(exact), len(near))
    assert found.exact_first == [(row, texts.index(texts[row])) for row in exact[:10]]
    assert [row for row, _ in found.near_first] == near[:10]


@pytest.mark.parametrize("part_rows", [20, 7])
def test_repeats_do_not_hang_on_how_rows_were_cut_or_spread(tmp_path, monkeypatch, part_rows):
    texts = texts_with_repeats(seed=1)
    once = repeats_of(texts, tmp_path, [])
    monkeypatch.setattr(duplicates, "PART_ROWS", part_rows)
    monkeypatch.setattr(duplicates, "BLOCK_ROWS", 11)
    assert repeats_of(texts, tmp_path, [0, 1, 40, 41]) == once


def rows_alike(rows, kinds):
    """Fingerprints of rows of which each repeats one of so many others, nearly or exactly."""
    rng = np.random.default_rng(1)
    texts = Fingerprints(
        rng.integers(1, 1 << 63, (kinds, 2), dtype=np.uint64),
        rng.integers(1, 1 << 32, (kinds, BANDS), dtype=np.uint32),
        rng.integers(0, 256, (kinds, HASHES), dtype=np.uint8),
    )
    of = rng.integers(0, kinds, rows)
    digests = texts.digests[of] + rng.integers(0, 3, (rows, 1), dtype=np.uint64)
    return Fingerprints(digests, texts.keys[of], texts.minima[of])


@pytest.mark.requirement("R312")
@pytest.mark.parametrize("kinds", [1, 7])
def test_comparing_holds_no_more_of_many_rows_than_of_few_however_alike_they_are(tmp_path, monkeypatch, kinds):
    monkeypatch.setattr(duplicates, "PART_ROWS", 1000)
    monkeypatch.setattr(duplicates, "BLOCK_ROWS", 500)
    memmap, mapped = np.memmap, {0}

    def mapping(path, **how):
        mapped.add(how["shape"][0] if "minima" in path.name else 0)
        return memmap(path, **how)

    monkeypatch.setattr(np, "memmap", mapping)
    peaks = []
    for rows in (3_000, 9_000):
        files = FingerprintFiles(tmp_path)
        with files:
            files.append(rows_alike(rows, kinds))
        tracemalloc.start()
        find_repeats(files, rows, lambda: None)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < 1.3 * peaks[0]
    assert 0 < max(mapped) <= 500


def test_writing_without_spaces_is_compared_by_its_characters(tmp_path):
    text = "包裹又晚了屏幕坏了请帮我处理订单号码谢谢你的帮助我很感激" * 2
    assert (
        repeats_of([text, text + "。", "完全不同的内容关于天气和食物以及旅行的故事很长很长很长"], tmp_path, []).near
        == 1
    )


def test_short_rows_and_rows_without_words_are_near_to_none(tmp_path):
    found = repeats_of(["yes please", "yes please!", "", " "], tmp_path, [])
    assert (found.exact, found.near) == (0, 0)


def test_labels_of_stretches_merge_to_those_of_the_whole():
    answers = [f'{{"queue": "{at % 3}", "sure": {"true" if at % 2 else "null"}, "tags": []}}' for at in range(30)]
    answers += ["billing", "billing", "{broken"]
    whole, merged = Labels(), Labels()
    for start in range(0, len(answers), 8):
        part = Labels()
        for answer in answers[start : start + 8]:
            part.see(answer)
            whole.see(answer)
        merged.merge(part.document())
    assert merged.report() == whole.report()
    fields = {field["field"]: field["values"] for field in merged.report()}
    assert fields["queue"] == [{"value": str(value), "rows": 10} for value in range(3)]
    assert fields["sure"] == [{"value": "null", "rows": 15}, {"value": "true", "rows": 15}]
    assert fields[""][0] == {"value": "billing", "rows": 2}
    assert "tags" not in fields


def test_a_field_of_free_text_is_no_label_even_where_no_stretch_shows_it_alone():
    merged = Labels()
    for start in range(0, MOST_VALUES + 100, 100):
        part = Labels()
        for at in range(start, start + 100):
            part.see(f'{{"note": "n{at}"}}')
        merged.merge(part.document())
    merged.merge({"fields": {"note": {"n1": 5}}, "free": []})
    assert merged.report() == []


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("Where is my parcel and why is it late?", "en"),
        ("Où est mon colis et pourquoi est-il en retard pour nous ?", "fr"),
        ("¿Dónde está mi paquete y por qué no ha llegado?", "es"),
        ("Где моя посылка?", "ru"),
        ("Де моя посилка і чому її немає?", "uk"),
        ("我的包裹在哪里", "zh"),
        ("荷物はどこですか", "ja"),
        ("내 소포는 어디에 있나요", "ko"),
        ("أين طردي", "ar"),
        ("42 + 7 = {x}", "und"),
        ("", "und"),
    ],
)
def test_a_language_is_guessed_by_script_and_common_words(text, language):
    assert language_of(text, words_of(text)) == language


def test_the_minima_of_equal_rows_are_equal_and_of_others_are_not():
    one, other = texts_with_repeats()[:2]
    found = fingerprints([digest([text]) for text in (one, one, other)], [words_of(text) for text in (one, one, other)])
    assert np.array_equal(found.minima[0], found.minima[1])
    assert (found.minima[0] == found.minima[2]).mean() < 0.2
