"""Records of other tools as the importers' tests write them, and what an import makes of them."""

from datasets.importers.convert import import_file
from datasets.pairs import read_pair
from datasets.rows import read_row

USER, HELPER = {"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}
OTHER = {"role": "assistant", "content": "c"}
TOOL = {"type": "function", "function": {"name": "f", "parameters": {}}}
CHAT_ROW, PAIR_ROW = {"messages": [USER, HELPER]}, {"prompt": [USER], "chosen": HELPER, "rejected": OTHER}


def imported(tmp_path, text, name="records.jsonl", **options):
    """The rows of a file, and the report."""
    source = tmp_path / name
    source.write_text(text)
    return rows_of(source, tmp_path, **options)


def rows_of(source, tmp_path, **options):
    out = tmp_path / "rows.jsonl"
    report = import_file(source, out, **options)
    read = read_pair if report.format.startswith("preference") else read_row
    return [read(line.encode()) for line in out.read_text().splitlines()], report


def codes(noted):
    return {code: seen.count for code, seen in noted.items()}
