"""The descriptor's page is written from its fields."""

from pathlib import Path

from runs.reference import descriptor_page

PAGE = Path(__file__).resolve().parents[2] / "docs" / "reference" / "descriptor.md"


def test_the_page_is_what_the_fields_say():
    again = "write it again: python -m runs.reference > docs/reference/descriptor.md"
    assert PAGE.read_text() == descriptor_page(), again
