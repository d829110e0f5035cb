"""Row N of a file of lines, found through its index."""

import random

import pytest

from datasets.row_index import BEGINNING, MARK_BYTES, build_index, checksum, open_index, read_rows


def lines(count, *, seed=1):
    dice = random.Random(seed)
    return [b'{"row": %d, "text": "%s"}' % (number, b"x" * dice.randrange(0, 4000)) for number in range(count)]


@pytest.fixture
def places(tmp_path):
    return tmp_path / "rows.jsonl", tmp_path / "index" / "rows"


def test_every_row_is_found_where_it_stands_whatever_lies_between(places):
    file, index = places
    rows = lines(400)
    dice = random.Random(2)
    file.write_bytes(b"\xef\xbb\xbf" + b"".join(
        row + dice.choice([b"\n", b"\r\n", b"\n\n", b"\n \t\r\n"]) for row in rows)[:-1])
    found = open_index(file, index)
    assert found.num_rows == 400
    assert file.stat().st_size > 4 * MARK_BYTES
    by_line = list(read_rows(file, BEGINNING))
    assert [row.data for row in by_line] == rows
    for number in (0, 1, 77, 200, 399):
        at = next(row for row in read_rows(file, found.near(number)) if row.row == number)
        assert at == by_line[number]
        assert number - found.near(number).row < 200


def test_equal_rows_share_a_checksum_and_are_found_in_order(places):
    file, index = places
    rows = lines(50)
    file.write_bytes(b"\n".join([*rows, *reversed(rows)]))
    found = open_index(file, index)
    assert [number for number, _ in found.rows_like({checksum(rows[3]), checksum(rows[10])})] == [3, 10, 89, 96]


def test_an_index_that_is_cut_off_or_of_another_version_is_made_again(places):
    file, index = places
    file.write_bytes(b"\n".join(lines(5)))
    build_index(file, index)
    good = index.read_bytes()
    for broken in (b"", good[:9], good[:-1], b"rows-0\0\0" + good[8:]):
        index.write_bytes(broken)
        assert open_index(file, index).num_rows == 5
        assert index.read_bytes() == good


def test_a_file_that_is_gone_is_said_to_be(places):
    with pytest.raises(FileNotFoundError):
        open_index(*places)
