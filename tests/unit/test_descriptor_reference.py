"""The descriptor's page is written from its fields."""

from pathlib import Path

from runs.reference import descriptor_page
from tests.unit.resolving import resolved

PAGE = Path(__file__).resolve().parents[2] / "docs" / "reference" / "descriptor.md"


def test_the_page_is_what_the_fields_say():
    again = "write it again: python -m runs.reference > docs/reference/descriptor.md"
    assert PAGE.read_text() == descriptor_page(), again


def test_the_page_says_that_a_length_of_zero_is_the_default():
    assert resolved({"maxSeqLength": 0}).config["maxSeqLength"] == resolved().config["maxSeqLength"] == 2048
    row = next(line for line in descriptor_page().splitlines() if line.startswith("| `maxSeqLength`"))
    assert row.split("|")[3].strip() == "2048" and "Zero is the default" in row
