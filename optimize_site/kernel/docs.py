"""The project's documentation as pages. Markdown never brings its own HTML or script addresses."""

import re
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from urllib.parse import urlsplit
from xml.etree.ElementTree import Element

import markdown
from django.conf import settings
from markdown.extensions import Extension
from markdown.treeprocessors import Treeprocessor

FOLDER: Path = settings.BASE_DIR / "docs"
NAME = re.compile(r"[a-z0-9][a-z0-9-]*(?:/[a-z0-9][a-z0-9-]*)*")
IMAGE = re.compile(r"[a-z0-9][a-z0-9-]*\.(png|svg)")
IMAGE_TYPES = {"png": "image/png", "svg": "image/svg+xml"}
LONGEST_NAME = 200
SAFE_SCHEMES = {"", "http", "https", "mailto"}
FIRST = ("index", "quickstart", "concepts")
WIDE = '<div class="scroll" role="group" aria-label="Table">'
"""What a table lies in, so that a narrow page scrolls the table instead of breaking its words."""


class OnlySafeAddresses(Treeprocessor):
    """Drops addresses that are neither of the web nor of this box; turns `page.md` into its address here."""

    def run(self, root: Element) -> None:
        for node in root.iter():
            for attribute in ("href", "src"):
                if attribute in node.attrib:
                    node.set(attribute, _address(node.attrib[attribute]))


def _address(text: str) -> str:
    compact = re.sub(r"[\x00-\x20]", "", text)
    try:
        parts = urlsplit(compact)
    except ValueError:
        return "#"
    if parts.scheme.lower() not in SAFE_SCHEMES:
        return "#"
    if not parts.scheme and not parts.netloc and parts.path.endswith(".md") and not parts.path.startswith("/"):
        page = parts.path.removesuffix(".md").removeprefix("./").removeprefix("docs/")
        return f"/docs/{page}" + (f"#{parts.fragment}" if parts.fragment else "")
    return compact


class Untrusted(Extension):
    """Raw HTML in the text is shown as text."""

    def extendMarkdown(self, md: markdown.Markdown) -> None:
        md.preprocessors.deregister("html_block")
        md.inlinePatterns.deregister("html")
        md.treeprocessors.register(OnlySafeAddresses(md), "only_safe_addresses", 0)


def render_markdown(text: str) -> str:
    """HTML of a Markdown text that may come from anybody."""
    made: str = markdown.markdown(text, extensions=["tables", "fenced_code", "sane_lists", "toc", Untrusted()],
                                  output_format="html")
    return made.replace("<table>", f"{WIDE}<table>").replace("</table>", "</table></div>")


@dataclass(frozen=True)
class Page:
    """One page of the documentation."""

    name: str
    title: str


def list_pages() -> list[Page]:
    """Every page, the ones to read first at the top."""
    names = sorted(path.relative_to(FOLDER).with_suffix("").as_posix() for path in FOLDER.rglob("*.md"))
    ranked = sorted(names, key=lambda name: (FIRST.index(name) if name in FIRST else len(FIRST), name))
    return [Page(name, _title(FOLDER / f"{name}.md")) for name in ranked]


def read_page(name: str) -> tuple[str, str] | None:
    """A page's title and HTML, or None where there is none of that name."""
    if len(name) > LONGEST_NAME or not NAME.fullmatch(name):
        return None
    path = FOLDER / f"{name}.md"
    if not path.is_file() or not path.resolve().is_relative_to(FOLDER.resolve()):
        return None
    return _title(path), _html(path, path.stat().st_mtime_ns)


def read_image(name: str) -> tuple[str, bytes] | None:
    """The content type and the bytes of a picture that a page shows, or None where there is none of that name."""
    found = IMAGE.fullmatch(name) if len(name) <= LONGEST_NAME else None
    path = FOLDER / "images" / name
    if found is None or not path.is_file():
        return None
    return IMAGE_TYPES[found[1]], path.read_bytes()


@lru_cache(maxsize=64)
def _html(path: Path, stamp: int) -> str:
    return render_markdown(path.read_text(encoding="utf-8"))


def _title(path: Path) -> str:
    with path.open(encoding="utf-8") as file:
        for line in file:
            if line.startswith("# "):
                return line[2:].strip()
    return path.stem.replace("-", " ").capitalize()
