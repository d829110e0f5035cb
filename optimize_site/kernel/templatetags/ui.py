"""Template tags of the box: icons, states, IDs, times, numbers, tooltips, and the same from a terminal."""

import json
import math
import re
import shlex
from datetime import UTC, datetime
from typing import Any

from django import template
from django.http import HttpRequest
from django.templatetags.static import static
from django.urls import NoReverseMatch, reverse
from django.utils.dateparse import parse_datetime
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString
from django.utils.text import slugify

from optimize_site.kernel import clock
from optimize_site.kernel.ids import SHOWN
from optimize_site.kernel.text import plain
from optimize_site.kernel.words import TERMS, concept_address, state_word

register = template.Library()
NAVIGATION = (("Home", "box:home", "home"), ("Workloads", "evaluations:workloads", "workloads"),
              ("Runs", "runs:list", "runs"), ("Models", "evaluations:models", "models"),
              ("Datasets", "datasets:list", "datasets"), ("Evaluations", "evaluations:list", "evaluations"),
              ("Pipelines", "evaluations:pipelines", "pipelines"), ("Box", "box:box", "box"),
              ("Docs", "box:docs", "docs"))
BELOW = {"runs:list": ("/snapshots/",), "evaluations:models": ("/trials/", "/namespaces", "/bundles"),
         "evaluations:list": ("/comparisons", "/judges", "/graders")}
"""Where pages stand whose address does not begin as their entry's does."""


@register.simple_tag(takes_context=True)
def navigation(context: template.Context) -> SafeString:
    """The rail's entries; the one whose address begins this page's, or below which it stands, is the current one."""
    request: HttpRequest = context["request"]
    links = []
    for label, name, picture in NAVIGATION:
        try:
            address = reverse(name)
        except NoReverseMatch:
            continue
        begins = (address.rstrip("/"), *BELOW.get(name, ()))
        here = request.path == address if address == "/" else request.path.startswith(begins)
        links.append((address, SafeString(' aria-current="page"') if here else "", icon(picture), label))
    return format_html_join("", '<li><a href="{}"{}>{}{}</a></li>', links)


@register.simple_tag
def icon(name: str, extra: str = "") -> SafeString:
    """One icon of the sprite; decoration, so hidden from screen readers."""
    return format_html('<svg class="icon {}" aria-hidden="true"><use href="{}#{}"></use></svg>', extra,
                       static("icons.svg"), name)


@register.simple_tag
def state(value: str, text: str = "") -> SafeString:
    """A phase or status as an icon and a word."""
    word = state_word(value)
    return format_html('<span class="badge {}">{}{}</span>', word.tone,
                       icon(word.icon, "spin" if word.icon == "spin" else ""), text or word.text)


@register.filter
def state_text(value: str) -> str:
    """The word for a phase or status."""
    return state_word(value).text


@register.simple_tag
def ident(value: str, url: str = "") -> SafeString:
    """An ID: its first twelve characters, monospaced, the whole in the title, with a copy button."""
    if not value:
        return SafeString("—")
    shown = format_html('<a href="{}" title="{}">{}</a>', url, value, value[:SHOWN]) if url else format_html(
        '<span title="{}">{}</span>', value, value[:SHOWN])
    return format_html('<span class="id">{}<button type="button" data-copy="{}" aria-label="Copy {}">{}</button>'
                       '</span>', shown, value, value[:SHOWN], icon("copy"))


@register.filter
def short(value: str) -> str:
    """The first twelve characters of an ID."""
    return str(value or "")[:SHOWN]


def _moment(value: Any) -> datetime | None:
    if isinstance(value, datetime):
        return value
    if isinstance(value, int | float):
        return datetime.fromtimestamp(value, UTC)
    return parse_datetime(value) if isinstance(value, str) and value else None


@register.filter
def when(value: Any) -> SafeString:
    """A time relative to now, with the absolute one in the title."""
    moment = _moment(value)
    if moment is None:
        return SafeString("—")
    return format_html('<time datetime="{}" title="{} UTC" data-relative class="nowrap">{}</time>',
                       moment.isoformat(timespec="seconds"), moment.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S"),
                       _relative((clock.now() - moment).total_seconds()))


def _relative(seconds: float) -> str:
    ahead, span = seconds < 0, abs(seconds)
    if span < 45:
        return "in a moment" if ahead else "just now"
    for size, unit in ((86400, "d"), (3600, "h"), (60, "m")):
        if span >= size or unit == "m":
            number = max(1, round(span / size) if unit == "m" else int(span // size))
            break
    return f"in {number}{unit}" if ahead else f"{number}{unit} ago"


@register.filter
def duration(seconds: Any) -> str:
    """Seconds as people say them: `41s`, `31m 5s`, `2h 4m`."""
    if seconds is None or seconds == "":
        return "—"
    total = float(seconds)
    if total < 1:
        return "<1s" if total > 0 else "0s"
    if total < 10:
        return f"{total:.1f}s"
    whole = round(total)
    if whole < 60:
        return f"{whole}s"
    if whole < 3600:
        return f"{whole // 60}m {whole % 60}s" if whole % 60 else f"{whole // 60}m"
    if whole < 86400:
        return f"{whole // 3600}h {whole % 3600 // 60}m"
    return f"{whole // 86400}d {whole % 86400 // 3600}h"


@register.filter
def millis(value: Any) -> str:
    """Milliseconds as a duration."""
    return duration(None if value is None else float(value) / 1000)


@register.filter
def size(value: Any) -> str:
    """Bytes in binary units."""
    if value is None or value == "":
        return "—"
    amount = float(value)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if amount < 1024 or unit == "GiB":
            break
        amount /= 1024
    return f"{int(amount)} B" if unit == "B" else f"{amount:.1f} {unit}"


@register.filter
def figure(value: Any, digits: int = 4) -> str:
    """A number for reading: thousands apart, small ones to `digits` significant places."""
    if value is None or value == "" or isinstance(value, bool):
        return "—"
    if isinstance(value, str):
        return value
    if isinstance(value, int) or (float(value).is_integer() and abs(value) >= 1000):
        return f"{int(value):,}"
    if not math.isfinite(value):
        return str(value)
    if 1e-4 <= abs(value) < 1000 or value == 0:
        decimals = max(0, int(digits) - 1 - math.floor(math.log10(abs(value)))) if value else 0
        return f"{value:.{min(decimals, int(digits))}f}"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.{int(digits) - 1}g}"


@register.filter
def score(value: Any) -> str:
    """A score between 0 and 1, to four places."""
    return "—" if value is None or value == "" else f"{float(value):.4f}"


@register.filter
def signed(value: Any) -> str:
    """A difference of scores with its sign."""
    return "—" if value is None or value == "" else f"{float(value):+.4f}"


@register.filter
def percent(value: Any) -> str:
    """A share as a percentage."""
    return "—" if value is None or value == "" else f"{float(value) * 100:.1f}%"


@register.filter
def width_percent(interval: Any) -> str:
    """How wide an interval between 0 and 1 is drawn."""
    return percent(float(interval[1]) - float(interval[0]))


@register.filter
def shade_percent(share: Any) -> str:
    """How dark a cell is for a share: never so dark that its text could not be read."""
    return f"{6 + float(share) * 34:.0f}%"


@register.filter
def minus(value: Any, other: Any) -> float:
    """A difference."""
    return float(value) - float(other)


@register.filter
def as_body(value: str, name: str) -> dict[str, str]:
    """A JSON body of one field."""
    return {name: value}


@register.filter
def rest_percent(value: Any) -> str:
    """What a share leaves of the whole."""
    return percent(1 - float(value))


@register.filter
def count(value: Any) -> str:
    """A whole number with thousands apart."""
    return "—" if value is None or value == "" else f"{int(value):,}"


@register.filter
def millions(value: Any) -> str:
    """A number of parameters as model names state it: `135 M`, `1.24 B`."""
    amount = float(value)
    return f"{amount / 1e9:.2f} B" if amount >= 1e9 else f"{amount / 1e6:.0f} M"


@register.filter
def billions(value: Any) -> str:
    """Billions of parameters as the model's name states them."""
    return f"{float(value):g} B" if float(value) >= 1 else f"{float(value) * 1000:.0f} M"


@register.filter
def pretty(value: Any) -> str:
    """A JSON value indented for reading."""
    return json.dumps(value, indent=2, ensure_ascii=False, default=str)


@register.filter
def spaced(name: str) -> str:
    """A programs' name as words: `merge_parity` is merge parity."""
    return name.replace("_", " ")


@register.filter
def one_line(value: Any) -> str:
    """A setting's value as the descriptor writes it."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)


@register.filter
def printable(value: Any) -> str:
    """Text from outside without control characters and terminal escapes."""
    return plain(str(value if value is not None else ""))


@register.filter
def coded(value: Any) -> SafeString:
    """A sentence whose `commands` stand between backticks, with these set as code."""
    parts = re.split(r"`([^`]+)`", str(value if value is not None else ""))
    return format_html_join("", "{}", ((format_html("<code>{}</code>", part) if place % 2 else part,)
                                       for place, part in enumerate(parts)))


@register.filter
def last_part(reference: str) -> str:
    """A reference without its namespace."""
    return str(reference).rpartition("/")[2]


@register.filter
def said(content: Any) -> str:
    """A message's content as text: parts joined, control characters left out."""
    if isinstance(content, list):
        content = "\n".join(str(part.get("text", f"[{part.get('type', 'part')}]")) for part in content
                            if isinstance(part, dict))
    return plain(str(content or ""))


@register.filter
def yesno_word(value: str) -> str:
    """`true` and `false` as a person says them, also where more words follow, as in `true where it fits`."""
    word, space, rest = value.partition(" ")
    return {"true": "Yes", "false": "No"}.get(word, word) + space + rest


@register.filter
def get(mapping: Any, key: Any) -> Any:
    """A mapping's value for a key, or nothing."""
    return mapping.get(key) if hasattr(mapping, "get") else None


@register.simple_tag
def term(name: str, text: str = "") -> SafeString:
    """A term of the field with its one-line explanation and a link to more, shown on hover and on focus."""
    known = TERMS.get(name)
    shown = text or name
    if known is None:
        return format_html("{}", shown)
    key = f"tip-{slugify(name)}"
    return format_html('<span class="term" tabindex="0" aria-describedby="{0}">{1}<span class="tip">'
                       '<span role="tooltip" id="{0}">{2}</span> '
                       '<a href="{3}" target="_blank" aria-label="More about {4}">More</a></span></span>',
                       key, shown, known, concept_address(name), name)


@register.simple_tag(takes_context=True)
def query_with(context: template.Context, **changes: Any) -> str:
    """This page's query string with some of its values changed; an empty one is left out."""
    query = context["request"].GET.copy()
    for key, value in changes.items():
        query.pop(key, None)
        if value not in ("", None):
            query[key] = str(value)
    return f"?{query.urlencode()}" if query else "?"


@register.inclusion_tag("partials/terminal.html", takes_context=True)
def terminal(context: template.Context, command: str, path: str, method: str = "GET", body: Any = None,
             file: str = "") -> dict[str, Any]:
    """The command and the curl that do what the page does."""
    request: HttpRequest = context["request"]
    return {"command": f"./optimize {command}",
            "curl": curl_line(request.build_absolute_uri("/").rstrip("/") + path, method, body, file)}


def curl_line(address: str, method: str = "GET", body: Any = None, file: str = "") -> str:
    """A curl command for a route of the API, with the token taken from the environment."""
    is_implied = method == "GET" or body is not None or bool(file)
    lines = [f'curl {"" if is_implied else f"-X {method} "}-H "Authorization: Bearer $OPTIMIZE_ACCESS_TOKEN"']
    if body is not None:
        lines += ["-H 'Content-Type: application/json'", f"-d {shlex.quote(json.dumps(body, ensure_ascii=False))}"]
    if file:
        lines.append(f"--data-binary @{file}")
    return " \\\n  ".join([*lines, shlex.quote(address)])


@register.inclusion_tag("partials/action.html", takes_context=True)
def action(context: template.Context, label: str, url: str, *, needs: str = "operator", ask: str = "", tone: str = "",
           why_not: str = "", name: str = "", value: str = "", picture: str = "") -> dict[str, Any]:
    """A button that does something: disabled, with the reason, for whom or when it may not be used."""
    may = context.get("is_admin") if needs == "admin" else context.get("may_operate")
    reason = why_not or ("" if may else f"Needs the role {needs}; you are a {context.get('role', 'stranger')}.")
    return {"label": label, "url": url, "ask": ask, "tone": tone, "reason": reason, "name": name, "value": value,
            "picture": picture, "request": context["request"], "csrf_token": context.get("csrf_token")}
