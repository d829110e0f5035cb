"""Pages of datasets: the list, the upload, and one dataset with its rows."""

from collections.abc import Iterator
from typing import Any

from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.http import require_GET, require_http_methods, require_POST

from datasets import queries
from datasets.forms import read_upload
from datasets.operations import register_dataset
from optimize_site.kernel.auth import actor_of
from optimize_site.kernel.conf import setting
from optimize_site.kernel.errors import OperationError
from optimize_site.kernel.feeds import Item, feed, finder, items
from optimize_site.kernel.htmx import HtmxRequest
from optimize_site.kernel.ids import looks_like_id
from optimize_site.kernel.listing import listed, whole
from optimize_site.kernel.refusals import go
from registry.models import Artifact, Version
from registry.operations import artifacts
from registry.queries import find_version, get_artifact, get_version, list_versions, newest, resolve_version

KIND = Artifact.Kind.DATASET
ROWS = 10
MOST_FIELDS, MOST_VALUES = 6, 10


@require_GET
def dataset_list(request: HtmxRequest) -> HttpResponse:
    """Every named dataset."""
    return render(request, "datasets/list.html", listed(request, queries.list_datasets()))


@require_http_methods(["GET", "HEAD", "POST"])
def upload(request: HtmxRequest) -> HttpResponse:
    """Register a file of chat rows; a refusal stands beside the form, line by line."""
    context: dict[str, Any] = {"reference": request.GET.get("reference", ""), "limit": _limit(),
                               "alias": "", "description": ""}
    if request.method != "POST":
        return render(request, "datasets/upload.html", context)
    context |= {name: request.POST.get(name, "") for name in ("reference", "alias", "description")}
    try:
        form = read_upload(request)
        done = register_dataset(form.reference, form.file.chunks(), actor=actor_of(request), alias=form.alias,
                                description=form.description, length=form.file.size)
    except OperationError as error:
        template = "datasets/upload.html#form" if request.htmx else "datasets/upload.html"
        return render(request, template, context | {"error": error}, status=error.status)
    words = "is registered" if done.is_new else "held these examples already; nothing was added"
    messages.success(request, f"{done.version.reference} {words}.", extra_tags="good")
    return go(request, address_of(done.version))


def _limit() -> int:
    return int(setting("trainer.datasets.max-bytes"))


def address_of(version: Version) -> str:
    """The page of a dataset's version."""
    page = reverse("datasets:detail", args=[version.artifact.namespace_id, version.artifact.name])
    return f"{page}?version=v{version.number}"


@require_GET
def version_page(request: HtmxRequest, version_id: str) -> HttpResponse:
    """From a version's ID, hash or reference to its page."""
    return redirect(address_of(resolve_version(KIND, version_id)))


@require_GET
def detail(request: HtmxRequest, namespace: str, name: str) -> HttpResponse:
    """One dataset at one of its versions: what it holds, its rows, its aliases, where it is used."""
    artifact = get_artifact(KIND, f"{namespace}/{name}")
    label = request.GET.get("version", "")
    version = get_version(artifact, label) if label else newest(artifact)
    if version is None:
        return redirect("datasets:list")
    search = request.GET.get("q", "").strip()[:200]
    found = queries.rows(version, offset=whole(request.GET.get("offset")), limit=ROWS, search=search)
    _note_repeated_instructions(found["rows"])
    examples = queries.example_set(version)
    template = "datasets/detail.html#rows" if request.htmx else "datasets/detail.html"
    return render(request, template, {
        "artifact": artifact, "version": version, "versions": list_versions(artifact), "examples": examples,
        "search": search, "found": found, "statistics": examples.statistics, "balance": _balance(examples.statistics),
        "lengths": _lengths(examples.statistics), "uses": items("uses", version),
        "aliases": artifact.aliases.select_related("version").order_by("name"),
        "previous": max(0, found["offset"] - ROWS) if found["offset"] else None,
        "is_first": found["offset"] == 0})


def _note_repeated_instructions(rows: list[dict[str, Any]]) -> None:
    """Mark a system message that the row above has too, so that the page can fold it."""
    above: Any = None
    for row in rows:
        first = row["messages"][0]
        own = first.get("content") if first["role"] == "system" else None
        if own is not None and own == above:
            row["messages"][0] = first | {"is_repeated": True}
        above = own


def _balance(statistics: dict[str, Any]) -> list[dict[str, Any]]:
    """What the answers say, as bars: each field of JSON answers, or the answers where they are labels."""
    fields = dict(statistics.get("fields") or {})
    if statistics.get("labels"):
        fields = {"Answer": statistics["labels"]} | fields
    return [_bars(name, field) for name, field in fields.items() if field["distinct"] > 1][:MOST_FIELDS]


def _bars(name: str, field: dict[str, Any]) -> dict[str, Any]:
    values = [value | {"share": value["rows"] / max(1, field["rows"])} for value in field["top"][:MOST_VALUES]]
    return {"name": name, "values": values, "more": max(0, field["distinct"] - MOST_VALUES)}


def _lengths(statistics: dict[str, Any]) -> list[dict[str, Any]]:
    """Lengths of whole rows and of answers, as places on one scale."""
    longest = max([(statistics.get(key) or {}).get("max", 0) for key in ("rowCharacters", "answerCharacters")] + [1])
    named = (("Whole row", "rowCharacters"), ("Answer", "answerCharacters"))
    return [{"name": name, "found": found, "from": found["min"] / longest, "to": found["p90"] / longest,
             "width": (found["p90"] - found["min"]) / longest, "at": found["median"] / longest,
             "most": found["max"] / longest}
            for name, key in named if (found := statistics.get(key))]


@require_POST
def set_alias(request: HtmxRequest, namespace: str, name: str) -> HttpResponse:
    """Point an alias at a version."""
    artifact = get_artifact(KIND, f"{namespace}/{name}")
    version = get_version(artifact, request.POST.get("version", ""))
    alias = artifacts.set_alias(artifact, request.POST.get("alias", "").strip(), version, actor=actor_of(request))
    messages.success(request, f"{alias.name} points at v{version.number}.", extra_tags="good")
    return go(request, address_of(version))


# What other pages show of datasets -----------------------------------------------------------------------------------


def _item(artifact: Any) -> Item:
    return Item("Dataset", artifact.reference, reverse("datasets:detail", args=[artifact.namespace_id, artifact.name]),
                detail=f"{artifact.num_examples or 0:,} rows, v{artifact.newest_number}", at=artifact.newest_at)


@feed("checklist", 20)
def add_data(_: Any) -> Iterator[Item]:
    """The second step of a new box."""
    number = queries.list_datasets().count()
    detail = "Your examples as chat rows: what was asked, and the answer to learn. Keep some aside for judging."
    yield Item("", "Add data", reverse("datasets:list" if number else "datasets:upload"), is_done=bool(number),
               detail=f"{number} dataset{'s are' if number > 1 else ' is'} registered." if number else detail,
               action="Upload")


@finder
def datasets_named(text: str) -> Iterator[Item]:
    """Datasets by part of their name, or by the beginning of a version's ID or hash."""
    named = queries.list_datasets()
    wanted = text.lower().partition(":")[0]
    space, _, name = wanted.rpartition("/")
    found = named.filter(name__icontains=name, namespace__name__icontains=space) if space else named.filter(
        name__icontains=wanted) | named.filter(namespace__name__icontains=wanted)
    yield from map(_item, found[:10])
    if looks_like_id(text.lower()):
        version = _by_hash(text.lower())
        if version is not None:
            yield Item("Dataset", version.reference, address_of(version), at=version.created_at)


def _by_hash(text: str) -> Version | None:
    try:
        return find_version(KIND, text)
    except OperationError:
        return None
