"""Every row of docs/requirements.md is carried by a test."""

import ast
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def promised_rows() -> set[str]:
    return set(re.findall(r"^\| (R\d{3}) \|", (ROOT / "docs" / "requirements.md").read_text(), re.MULTILINE))


def carried_rows(tree: ast.AST) -> set[str]:
    """The ids in the requirement marks of one test module."""
    calls = (node for node in ast.walk(tree) if isinstance(node, ast.Call))
    marks = (call for call in calls if isinstance(call.func, ast.Attribute) and call.func.attr == "requirement")
    return {arg.value for mark in marks for arg in mark.args if isinstance(arg, ast.Constant)}


def all_carried() -> set[str]:
    modules = [path for path in (ROOT / "tests").rglob("test_*.py") if path != Path(__file__)]
    return set().union(*(carried_rows(ast.parse(path.read_text())) for path in modules))


def test_every_promised_row_is_carried_by_a_test():
    missing = sorted(promised_rows() - all_carried())
    assert not missing, f"{len(missing)} rows without a test: {', '.join(missing)}"


def test_every_mark_names_a_row_that_is_promised():
    strangers = sorted(all_carried() - promised_rows())
    assert not strangers, f"marks of rows that docs/requirements.md does not hold: {', '.join(strangers)}"
