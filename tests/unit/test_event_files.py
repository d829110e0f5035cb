"""TensorBoard's event files, read back by the format's own description, and a run's figures in them."""

import struct

import pytest

from runs.event_files import crc32c, header, restart, scalars
from runs.tensorboard import Mirror, event_file, file_name, tags_of

RUN = {"runId": "ab" * 32, "createdAt": "2026-01-02T03:04:05+00:00", "attempts": [{"number": 1, "resumedStep": None}]}
AT = "2026-01-02T03:05:00+00:00"
KINDS = {0: "varint", 1: 8, 2: "bytes", 5: 4}


def metric(step, attempt=1, **figures):
    measured = figures.pop("measured", {})
    return {"step": step, "attempt": attempt, "at": AT, "measured": measured} | figures


# The reader ----------------------------------------------------------------------------------------------------------


def bits_of(data):
    """The remainder of the Castagnoli polynomial, bit by bit: another way than the table's."""
    crc = 0xFFFFFFFF
    for byte in data:
        for place in range(8):
            odd = (crc ^ (byte >> place)) & 1
            crc = (crc >> 1) ^ (0x82F63B78 if odd else 0)
    return crc ^ 0xFFFFFFFF


def checked(data, told):
    crc = bits_of(data)
    assert struct.unpack("<I", told)[0] == (((crc >> 15) | (crc << 17)) + 0xA282EAD8) & 0xFFFFFFFF
    return data


def records_of(data):
    while data:
        length = struct.unpack("<Q", checked(data[:8], data[8:12]))[0]
        body, rest = data[12:12 + length], data[12 + length:]
        yield message_of(checked(body, rest[:4]))
        data = rest[4:]


def message_of(data):
    """A message's fields by number, each a list of what it holds."""
    found = {}
    while data:
        key, data = varint_of(data)
        kind = KINDS[key & 7]
        if kind == "varint":
            value, data = varint_of(data)
        else:
            length = kind
            if kind == "bytes":
                length, data = varint_of(data)
            value, data = data[:length], data[length:]
        found.setdefault(key >> 3, []).append(value)
    return found


def varint_of(data):
    value = 0
    for place, byte in enumerate(data):
        value |= (byte & 0x7F) << 7 * place
        if byte < 0x80:
            return value, data[place + 1:]
    raise AssertionError("a number without an end")


def read(data):
    """What TensorBoard would hold of a file: its tags, each with its values by step, restarts taken back."""
    first, *others = records_of(data)
    assert first[3] == [b"brain.Event:2"]
    curves = {}
    for event in others:
        step = event.get(2, [0])[0]
        if 7 in event:
            assert message_of(event[7][0]) == {1: [1]}
            for curve in curves.values():
                for later in [known for known in curve if known >= step]:
                    del curve[later]
            continue
        for value in message_of(event[5][0])[1]:
            parts = message_of(value)
            curves.setdefault(parts[1][0].decode(), {})[step] = struct.unpack("<f", parts[2][0])[0]
    return curves


# What is written -----------------------------------------------------------------------------------------------------


def test_the_checksum_is_castagnolis():
    assert crc32c(b"123456789") == bits_of(b"123456789") == 0xE3069283


def test_a_file_begins_with_its_version_and_gives_back_what_was_written():
    values = {"train/loss": 0.5, "train/rate": -2.0, "größe": 1e9}
    data = header(1.5) + scalars(2.25, 300, values) + scalars(2.5, 2**40, {"train/loss": 0.25})
    first, second, _ = records_of(data)
    assert [struct.unpack("<d", event[1][0])[0] for event in (first, second)] == [1.5, 2.25]
    assert read(data) == {"train/loss": {300: 0.5, 2**40: 0.25}, "train/rate": {300: -2.0}, "größe": {300: 1e9}}


def test_a_restart_takes_back_its_step_and_later_ones():
    data = b"".join([header(0), *(scalars(0, step, {"a": 1.0}) for step in (1, 2, 3)), restart(0, 2),
                     scalars(0, 2, {"a": 5.0})])
    assert read(data) == {"a": {1: 1.0, 2: 5.0}}


def test_figures_stand_in_groups_and_what_is_no_number_of_a_file_is_left_out():
    tags = tags_of(metric(3, loss=1.5, validationLoss=2.0, perplexity=7.0, gradNorm=None, rewardTerms={"total": 1.0},
                          measured={"tokens": 9, "peak_memory_bytes": 2, "why": "no", "huge": 1e39, "is": True}))
    assert tags == {"train/loss": 1.5, "validation/loss": 2.0, "validation/perplexity": 7.0, "reward/total": 1.0,
                    "train/tokens": 9.0, "memory/peak_memory_bytes": 2.0}


def test_the_whole_of_a_run_is_one_file_that_tensorboard_knows_by_its_name():
    assert file_name(RUN).startswith("events.out.tfevents.1767323045.abababababab")
    data = b"".join(event_file(RUN, [metric(1, loss=2.0), metric(2, loss=1.0)]))
    assert read(data) == {"train/loss": {1: 2.0, 2: 1.0}}


# A mirror ------------------------------------------------------------------------------------------------------------


@pytest.fixture
def mirror(tmp_path):
    return Mirror(tmp_path, RUN)


def curves_of(mirror):
    return read(mirror.file.read_bytes())


def with_attempt(number, resumed):
    return RUN | {"attempts": [*RUN["attempts"], {"number": number, "resumedStep": resumed}]}


def test_a_mirror_appends_what_is_new_and_nothing_twice(mirror):
    assert mirror.wanted_from(RUN) == 0
    mirror.add([metric(0, validationLoss=3.0), metric(1, loss=2.0), metric(2, loss=1.5)])
    assert mirror.wanted_from(RUN) == 2
    before = mirror.file.read_bytes()
    mirror.add([metric(2, loss=1.5)])
    assert mirror.file.read_bytes() == before
    mirror.add([metric(2, loss=1.5, validationLoss=2.5), metric(3, loss=1.0)])
    assert mirror.file.read_bytes().startswith(before)
    assert curves_of(mirror) == {"train/loss": {1: 2.0, 2: 1.5, 3: 1.0}, "validation/loss": {0: 3.0, 2: 2.5}}
    assert mirror.step == 3


def test_updates_that_another_attempt_trained_again_take_the_place_of_the_earlier_ones(mirror):
    mirror.add([metric(step, loss=float(step)) for step in (1, 2, 3, 4)])
    assert mirror.wanted_from(with_attempt(2, 2)) == 2
    mirror.add([metric(2, loss=2.0), metric(3, 1, loss=3.0), metric(4, loss=4.0)])  # it has not come to them yet
    assert mirror.wanted_from(with_attempt(2, 2)) == 2
    mirror.add([metric(2, loss=2.0), metric(3, 2, loss=30.0), metric(4, loss=4.0)])
    assert curves_of(mirror) == {"train/loss": {1: 1.0, 2: 2.0, 3: 30.0}}
    assert mirror.wanted_from(with_attempt(2, 2)) == 3
    mirror.add([metric(3, 2, loss=30.0), metric(4, 2, loss=40.0)])
    assert curves_of(mirror)["train/loss"] == {1: 1.0, 2: 2.0, 3: 30.0, 4: 40.0}


def test_what_an_attempt_still_told_before_another_took_over_is_not_lost(mirror):
    mirror.add([metric(1, loss=1.0), metric(2, loss=2.0)])
    later = with_attempt(2, 4)
    assert mirror.wanted_from(later) == 2
    mirror.add([metric(2, loss=2.0), metric(3, loss=3.0), metric(4, loss=4.0), metric(5, 2, loss=5.0)])
    assert curves_of(mirror)["train/loss"] == {step: float(step) for step in (1, 2, 3, 4, 5)}


def test_a_mirror_made_again_begins_anew_under_the_same_name(mirror, tmp_path):
    mirror.add([metric(1, loss=1.0)])
    again = Mirror(tmp_path, RUN)
    assert again.file == mirror.file
    again.add([metric(1, loss=1.0)])
    assert curves_of(again) == {"train/loss": {1: 1.0}}
    assert [path.name for path in again.file.parent.iterdir()] == [file_name(RUN)]
