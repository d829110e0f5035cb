"""A run's figures as an event file to take away, for its page and its route."""

from django.http import HttpRequest, StreamingHttpResponse

from optimize_site.kernel.downloads import download
from runs import queries, render
from runs.models import Run
from runs.tensorboard import event_file, file_name


def event_file_download(request: HttpRequest, run: Run) -> StreamingHttpResponse:
    """The figures of every update, saved under a name that TensorBoard knows."""
    named = {"runId": run.pk, "createdAt": run.created_at}
    metrics = render.metric_documents(run, queries.metrics_of(run))
    return download(request, event_file(named, metrics), name=file_name(named))
