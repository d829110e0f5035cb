"""Damaged files of every format: each is read or refused in words, whatever was done to its bytes."""

import random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from datasets.errors import DatasetInvalid
from datasets.formats.eval_items import read_eval_items
from datasets.image_bytes import ImageFacts, ImageRefused, read_image
from datasets.ingest import examine_file
from datasets.token_rows import measure_files
from optimize_site.kernel.archives import ArchiveRefused
from tests.archives import GOOD_TOKENS, items, jpeg, kept, picture, png, token_rows, webp

few = settings(max_examples=50, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
CHANGES = st.lists(st.tuples(st.floats(0, 1), st.integers(0, 30), st.binary(max_size=8)), min_size=1, max_size=4)


def changed(data, changes):
    """The bytes with pieces of them replaced."""
    for where, length, piece in changes:
        at = int(where * len(data))
        data = data[:at] + piece + data[at + length:]
    return data


@given(CHANGES)
@few
def test_a_damaged_archive_is_read_or_refused(tmp_path, changes):
    try:
        with read_eval_items(kept(tmp_path, changed(items(), changes))) as found:
            assert found.num_examples
    except (ArchiveRefused, DatasetInvalid) as error:
        assert error.detail


PICTURES = [png(), picture("JPEG", 40, 30), picture("JPEG", 40, 30, progressive=True), picture("WEBP", 40, 30),
            picture("WEBP", 40, 30, "RGBA", lossless=True), jpeg(9, 9), webp(b"VP8X", bytes(10))]


@given(st.sampled_from(PICTURES), CHANGES)
@few
def test_a_damaged_image_is_read_or_refused(tmp_path, data, changes):
    try:
        assert isinstance(read_image(kept(tmp_path, changed(data, changes))), ImageFacts)
    except ImageRefused as error:
        assert str(error)


@given(st.binary(max_size=300) | st.text(max_size=100).map(lambda text: text.encode("utf-8", "surrogatepass")))
@few
def test_any_bytes_are_rows_or_refused(tmp_path, data):
    with pytest.raises(DatasetInvalid) as refused:
        examine_file(kept(tmp_path, data))
    assert refused.value.problems


def test_damaged_token_rows_are_read_or_refused_by_the_process_that_reads_them(tmp_path):
    draw, good = random.Random(7), token_rows(GOOD_TOKENS * 50)
    paths = [kept(tmp_path, changed(good, [(draw.random(), draw.randrange(9), draw.randbytes(4))]), f"{number}")
             for number in range(40)]
    found = measure_files(paths)
    assert found.num_bad >= len(found.bad) > 0
