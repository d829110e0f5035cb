"""Routes of runs. A run is named by its ID or the beginning of it."""

from typing import Any

from django.core.exceptions import RequestDataTooBig
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.urls import reverse
from ninja import Query, Router, Status

from optimize_site.kernel import stream
from optimize_site.kernel.api import DEFAULT_LIMIT, Body, page, page_of
from optimize_site.kernel.auth import actor_of
from optimize_site.kernel.documents import parse_document
from optimize_site.kernel.errors import InvalidInput, TooLarge
from runs import operations, queries, render
from runs.errors import NotWritten
from runs.event_file_download import event_file_download
from runs.grafana import grafana_link
from runs.models import Run
from runs.phases import PHASES
from runs.schemas import descriptor_schema

router = Router(tags=["runs"])
MAX_STEPS = 100_000
DESCRIPTOR = {"requestBody": {"required": True, "content": {
    kind: {"schema": descriptor_schema()} for kind in ("application/json", "application/yaml")}}}


class Annotation(Body):
    """Notes on a run; a field left out stays, an empty text clears it."""

    description: str | None = None
    configName: str | None = None


class PauseRequest(Body):
    """How a run is to rest: `save` writes a snapshot first, `latest` keeps the newest there is."""

    checkpoint: str


class Place(Body):
    """A place in the queue: right behind this run, or in front of all where none is named."""

    behind: str = ""


@router.post("", response={201: dict[str, Any], 200: dict[str, Any]}, openapi_extra=DESCRIPTOR)
def start_run(request: HttpRequest, dryRun: bool = False) -> Status[dict[str, Any]]:
    """Submit a descriptor (JSON or YAML). The same `submissionId` reaches the run it first started: 200, not 201."""
    if dryRun:
        return Status(200, check_run(request))
    submission = operations.submit_run(read_descriptor(request), actor=actor_of(request))
    return Status(201 if submission.is_new else 200, render.submission_document(submission))


@router.post("/dry-run", openapi_extra=DESCRIPTOR)
def check_run(request: HttpRequest) -> dict[str, Any]:
    """What submitting the descriptor would say: what would train and whether it may, with every problem."""
    return operations.check_run(read_descriptor(request), actor=actor_of(request))


@router.get("")
def list_runs(request: HttpRequest, phase: str = "", workload: str = "", project: str = "", archived: bool = False,
              limit: int = DEFAULT_LIMIT, offset: int = 0) -> dict[str, Any]:
    """Runs, newest first; `phase` is a phase's name or `open`."""
    runs = queries.list_runs(phase=phase, workload=workload or project, archived=archived)
    return page_of(runs, "runs", render.run_rows, limit=limit, offset=offset)


@router.get("/{run_id}")
def get_run(request: HttpRequest, run_id: str) -> dict[str, Any]:
    """The whole record."""
    return render.run_document(queries.get_run(run_id))


@router.post("/{run_id}/cancel", response={202: dict[str, Any]})
def cancel_run(request: HttpRequest, run_id: str) -> Status[dict[str, Any]]:
    """Ask a run to end; its committed snapshots stay."""
    run = operations.cancel_run(queries.get_run(run_id), actor=actor_of(request))
    return Status(202, render.run_document(run))


@router.post("/{run_id}/pause", response={200: dict[str, Any], 202: dict[str, Any]})
def pause_run(request: HttpRequest, run_id: str, payload: PauseRequest) -> Status[dict[str, Any]]:
    """Ask a run to rest. 202 for a new pause, 200 where the same one is already in progress."""
    pausing = operations.pause_run(queries.get_run(run_id), checkpoint=payload.checkpoint, actor=actor_of(request))
    return Status(202 if pausing.is_new else 200, render.run_document(pausing.run) | {"isNew": pausing.is_new})


@router.post("/{run_id}/resume", response={202: dict[str, Any]})
def resume_run(request: HttpRequest, run_id: str) -> Status[dict[str, Any]]:
    """Go on with a paused run, as another attempt of it."""
    return Status(202, render.run_document(operations.resume_run(queries.get_run(run_id), actor=actor_of(request))))


@router.post("/{run_id}/prioritize")
def prioritize_run(request: HttpRequest, run_id: str, payload: Place) -> dict[str, Any]:
    """Put a waiting run in front of the others, or right behind another one."""
    behind = queries.get_run(payload.behind) if payload.behind else None
    run = operations.prioritize_run(queries.get_run(run_id), behind=behind, actor=actor_of(request))
    return render.run_document(queries.get_run(run.pk))


@router.post("/{run_id}/annotate")
def annotate_run(request: HttpRequest, run_id: str, payload: Annotation) -> dict[str, Any]:
    """Set the description or the configuration's name."""
    run = operations.annotate_run(queries.get_run(run_id), actor=actor_of(request), description=payload.description,
                                  config_name=payload.configName)
    return render.run_document(run)


@router.get("/{run_id}/metrics")
def run_metrics(request: HttpRequest, run_id: str, limit: int = Query(0, ge=0, le=MAX_STEPS),
                fromStep: int = Query(0, ge=0)) -> dict[str, Any]:
    """The figures of every update from `fromStep` on, or of the `limit` most recent, oldest first."""
    run = queries.get_run(run_id)
    rows = queries.metrics_of(run, limit=limit or None, from_step=fromStep)
    return {"runId": run.pk, "total": run.metrics.count(), "metrics": render.metric_documents(run, rows)}


@router.get("/{run_id}/tensorboard")
def run_event_file(request: HttpRequest, run_id: str) -> HttpResponseBase:
    """The figures of every update as a TensorBoard event file."""
    return event_file_download(request, queries.get_run(run_id))


@router.get("/{run_id}/grafana")
def run_grafana(request: HttpRequest, run_id: str, attempt: int | None = Query(None, ge=1)) -> dict[str, Any]:
    """Where Grafana shows the run or one attempt of it, from its start to its end; else its own page."""
    run = queries.get_run(run_id)
    return grafana_link(run, page=request.build_absolute_uri(reverse("runs:detail", args=[run.pk])), attempt=attempt)


@router.get("/{run_id}/hparams")
def run_hparams(request: HttpRequest, run_id: str) -> dict[str, Any]:
    """The hyperparameters as the trainer was given them, and their digest. Not found until the job wrote them."""
    run = queries.get_run(run_id)
    return _written(run, "hyperparameters", run.hparams)


@router.get("/{run_id}/engine-config")
def run_engine_config(request: HttpRequest, run_id: str) -> dict[str, Any]:
    """What was asked of the engine and what it runs with. Not found until the job wrote it."""
    run = queries.get_run(run_id)
    return _written(run, "engine configuration", run.engine_config)


@router.get("/{run_id}/engine-runtime")
def run_engine_runtime(request: HttpRequest, run_id: str) -> dict[str, Any]:
    """What the newest attempt that started really runs with: its trainer, model, rollout engines and memory.

    Not found until a job started; parts appear as the job tells them.
    """
    run = queries.get_run(run_id)
    return _written(run, "engine's record", run.engine_runtime)


@router.get("/{run_id}/snapshots")
def run_snapshots(request: HttpRequest, run_id: str, limit: int = DEFAULT_LIMIT, offset: int = 0) -> dict[str, Any]:
    """The run's committed snapshots, newest first."""
    return page(queries.snapshots_of(queries.get_run(run_id)), "snapshots", render.snapshot_document, limit=limit,
                offset=offset)


@router.get("/{run_id}/smoke")
def run_smoke(request: HttpRequest, run_id: str, limit: int = DEFAULT_LIMIT, offset: int = 0) -> dict[str, Any]:
    """A smoke check's verdict, and the rows that were not reproduced: expected beside answer."""
    run = queries.get_run(run_id)
    missed = page(queries.missed_of(run), "missed", render.missed_document, limit=limit, offset=offset)
    return render.smoke_document(run) | missed


@router.get("/{run_id}/attempts")
def run_attempts(request: HttpRequest, run_id: str) -> dict[str, Any]:
    """Every try at the run, oldest first."""
    run = queries.get_run(run_id)
    return {"runId": run.pk, "attempts": [render.attempt_document(row) for row in queries.attempts_of(run)]}


@router.get("/{run_id}/verify")
def verify_run(request: HttpRequest, run_id: str, replay: bool = False) -> dict[str, Any]:
    """Hold what the run recorded and keeps against each other: phases, figures, saves, models. Reads all its files.

    `replay` trains the newest stretch between two saves once more and waits for it: the bytes must be the same.
    """
    return operations.verify_run(queries.get_run(run_id), replayed=replay, actor=actor_of(request))


@router.get("/{run_id}/log")
def run_log(request: HttpRequest, run_id: str, name: str = Query("stderr", alias="stream"),
            lines: int = Query(200, ge=1, le=5000), attempt: int | None = None) -> dict[str, Any]:
    """The last lines that the run's job wrote."""
    return queries.log_tail(queries.get_run(run_id), stream=name, lines=lines, attempt=attempt)


@router.get("/{run_id}/events")
def run_events(request: HttpRequest, run_id: str, follow: bool = True,
               after: int = Query(0, ge=0)) -> HttpResponseBase:
    """Follow a run (server-sent events): its status first, then what changes. `follow=false` answers at once."""
    run = queries.get_run(run_id)
    subject = stream.Subject(queries.KIND, run.pk, status=lambda: render.status_document(queries.get_run(run.pk)),
                             is_over=lambda status: status["phase"] in PHASES.terminal)
    return stream.respond(request, subject, follow=follow, after=after)


def read_descriptor(request: HttpRequest) -> Any:
    """A request's descriptor, in JSON or YAML. Raises TooLarge, InvalidInput."""
    try:
        text = request.body.decode()
    except RequestDataTooBig as error:
        raise TooLarge("The descriptor is larger than this box reads.") from error
    except UnicodeDecodeError as error:
        raise InvalidInput("The descriptor is not UTF-8.", code="malformed_document") from error
    return parse_document(text, name="The descriptor")


def _written(run: Run, what: str, found: dict[str, Any] | None) -> dict[str, Any]:
    if found is None:
        raise NotWritten(f"The run {run.pk[:12]} has not written its {what} yet; it is {run.phase}.",
                         hint="It is written once the job starts to train.")
    return {"runId": run.pk} | found
