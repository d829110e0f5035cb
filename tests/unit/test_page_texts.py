"""Text from outside as pages print it: logs, Markdown, numbers, times, marked differences."""

import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

from optimize_site.kernel.docs import read_page, render_markdown
from optimize_site.kernel.marking import mark_difference
from optimize_site.kernel.templatetags import ui
from optimize_site.kernel.text import plain
from optimize_site.kernel.words import TERMS, concept_address, event_words, state_word

TEMPLATES = Path(__file__).resolve().parents[2] / "templates"


@pytest.mark.parametrize(("written", "shown"), [
    ("\x1b[31mred\x1b[0m", "red"),
    ("\x1b]0;title\x07text", "text"),
    ("\x1b]8;;http://evil\x1b\\link", "link"),
    ("10%\r50%\r100%", "100%"),
    ("line\r\nnext", "line\nnext"),
    ("bell\x07 nul\x00 del\x7f c1\x9b31m", "bell nul del c131m"),
    ("user\u202egpj.exe", "usergpj.exe"),
    ("tab\tstays, 漢字 and 👩‍🔬 too", "tab\tstays, 漢字 and 👩‍🔬 too"),
])
def test_escapes_and_control_characters_are_left_out(written, shown):
    assert plain(written) == shown


class Tags(HTMLParser):
    """The elements and attributes of a text, as a browser would see them."""

    def __init__(self):
        super().__init__()
        self.tags, self.attributes = set(), []

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)
        self.attributes += attrs


@pytest.mark.parametrize("text", [
    "<script>alert(1)</script>", "<img src=x onerror=alert(1)>", "[x](javascript:alert(1))",
    "[x](  JaVaScRiPt:alert(1))", "[x](java\nscript:alert(1))", "![x](data:text/html;base64,AAAA)",
    "<svg/onload=alert(1)>", "[x](vbscript:x)", "<a href='javascript:alert(1)'>x</a>",
    "[a]: javascript:alert(1)\n\n[a]",
    "&lt;script&gt;", "`<script>`", "```\n<script>\n```", "<javascript:alert(1)>",
])
def test_markdown_brings_no_html_and_no_script(text):
    found = Tags()
    found.feed(render_markdown(text))
    assert found.tags <= {"p", "a", "img", "code", "pre", "em", "strong"}
    assert all(name in {"href", "src", "alt", "title", "class", "id"} for name, _ in found.attributes)
    assert all(value in {"#", "", None} for name, value in found.attributes if name in {"href", "src"})


def test_markdown_links_to_pages_stay_in_the_box():
    assert 'href="/docs/reference/api#runs"' in render_markdown("[api](reference/api.md#runs)")
    assert 'href="https://example.org/a.md"' in render_markdown("[out](https://example.org/a.md)")


def test_markdown_has_tables_and_code():
    made = render_markdown("| a | b |\n|---|---|\n| 1 | 2 |\n\n```sh\nls\n```")
    assert '<div class="scroll" role="group" aria-label="Table"><table>' in made and "</table></div>" in made
    assert "<pre><code" in made


@pytest.mark.parametrize(("seconds", "shown"), [(None, "—"), (0, "0s"), (0.2, "<1s"), (4.24, "4.2s"), (41, "41s"),
                                                (1865, "31m 5s"), (7440, "2h 4m"), (180000, "2d 2h")])
def test_durations_are_said_as_people_say_them(seconds, shown):
    assert ui.duration(seconds) == shown


@pytest.mark.parametrize(("value", "shown"), [(None, "—"), (0.0001, "0.0001"), (2.6e-7, "2.6e-07"), (0.19604, "0.1960"),
                                              (2.31, "2.310"), (1234567, "1,234,567"), (812.4, "812.4")])
def test_numbers_carry_as_many_digits_as_mean_something(value, shown):
    assert ui.figure(value) == shown


def test_a_size_has_its_unit():
    assert [ui.size(value) for value in (12, 5_612_340, 24 * 1024**3)] == ["12 B", "5.4 MiB", "24.0 GiB"]


def test_times_are_relative_and_absolute_in_the_title():
    from datetime import timedelta

    from django.utils import timezone

    shown = ui.when(timezone.now() - timedelta(hours=3, minutes=20))
    assert ">3h ago</time>" in shown and "UTC" in shown


def test_an_id_shows_twelve_digits_and_copies_all():
    shown = ui.ident("0123456789abcdef" * 4)
    assert ">0123456789ab</span>" in shown and f'data-copy="{"0123456789abcdef" * 4}"' in shown


def test_a_hostile_id_is_escaped():
    assert "<script>" not in ui.ident('"><script>alert(1)</script>')


def test_every_phase_has_words_of_its_own():
    from evaluations import phases as evaluation_phases
    from registry import phases as base_model_phases
    from runs.phases import PHASES

    for table in (PHASES, evaluation_phases.EVALUATION, base_model_phases.PHASES):
        for phase in table.next:
            assert state_word(phase).text, phase
    assert event_words("run.cancel_requested") == "Cancel requested"


def test_the_curl_of_a_page_can_be_pasted():
    line = ui.curl_line("http://box:9001/v1/x", "POST", {"name": "it's"})
    assert line.startswith('curl -H "Authorization: Bearer $OPTIMIZE_ACCESS_TOKEN"')
    assert "'{\"name\": \"it'\"'\"'s\"}'" in line
    assert ui.curl_line("http://box/v1/x", "POST").startswith("curl -X POST ")


def test_what_an_answer_lacks_and_adds_is_marked():
    expected, answer = mark_difference('{"queue":"billing"}', '{"queue": "returns"}')
    assert [piece.text for piece in expected if piece.kind == "missing"] == ["billing"]
    assert [piece.text for piece in answer if piece.kind == "added"] == ["returns"]


@pytest.mark.parametrize(("expected", "answer"), [("", "x"), ("a b", "a  b"), ("same", "same"),
                                                  ("x" * 9000, "y" * 9000), ("a " * 3000, "b " * 3000)])
def test_marked_pieces_joined_are_the_texts_again(expected, answer):
    left, right = mark_difference(expected, answer)
    assert "".join(piece.text for piece in left) == expected
    assert "".join(piece.text for piece in right) == answer


@pytest.mark.parametrize("term", TERMS)
def test_every_term_leads_to_the_section_that_explains_it(term):
    page, _, section = concept_address(term).removeprefix("/docs/").partition("#")
    assert f'id="{section}"' in read_page(page)[1]
    assert concept_address(term) in ui.term(term)


def test_every_term_that_a_page_names_is_explained():
    pages = "".join(path.read_text() for path in TEMPLATES.rglob("*.html"))
    figures = (TEMPLATES.parent / "runs" / "pages.py").read_text()
    named = {*re.findall(r'{% term "([^"]+)"', pages), *re.findall(r'"term": "([^"]+)"', figures),
             *re.findall(r'_estimate\([^,]+, "([^"]+)"', figures)}
    assert "judge" in named and named <= set(TERMS)


def test_the_commands_of_a_sentence_are_code_and_the_rest_is_text():
    assert ui.coded("Select it with `base-models select <x>`; a ` alone stays.") == (
        "Select it with <code>base-models select &lt;x&gt;</code>; a ` alone stays.")


@pytest.mark.parametrize("path", sorted(TEMPLATES.rglob("*.html")), ids=lambda path: path.stem)
def test_what_scrolls_inside_a_page_has_a_name_and_is_no_landmark_beside_its_section(path):
    scrolling = re.findall(r'<[^<]*class="scroll"[^<]*?>', path.read_text())
    assert all('role="group"' in tag and "aria-label" in tag for tag in scrolling)


@pytest.mark.parametrize("path", sorted(TEMPLATES.rglob("*.html")), ids=lambda path: path.stem)
def test_what_a_page_keeps_fresh_has_a_name_that_outlives_its_replacement(path):
    # A throttled trigger of the element itself would go with the element: box.js keeps time by the element's name.
    text = path.read_text()
    assert "sse:" not in text
    assert text.count("data-fresh=") == text.count('hx-trigger="look')
    assert all('id="' in tag for tag in re.findall(r"<(?:div|section|ul)[^<]*data-fresh", text))
