"""Health for supervisors and load balancers, and metrics for Prometheus."""

from django.db import DatabaseError, connection
from django.http import HttpRequest, HttpResponse, JsonResponse
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

from optimize_site.kernel.auth import actor_of_token
from optimize_site.kernel.gauges import REGISTRY


def healthz(request: HttpRequest) -> HttpResponse:
    """200 while this process answers."""
    return JsonResponse({"status": "ok"})


def readyz(request: HttpRequest) -> HttpResponse:
    """200 once the database answers, else 503 with the reason."""
    try:
        with connection.cursor() as cursor:
            cursor.execute("SELECT 1")
    except DatabaseError as error:
        return JsonResponse({"status": "waiting", "reason": f"The database does not answer: {error}"}, status=503)
    return JsonResponse({"status": "ready"})


def metrics(request: HttpRequest) -> HttpResponse:
    """The box's gauges, for a signed-in person or a bearer token."""
    header = request.headers.get("Authorization", "")
    known = request.user.is_authenticated or actor_of_token(header.removeprefix("Bearer ").strip() or "-") is not None
    if not known:
        return HttpResponse("A token is needed.\n", status=401, content_type="text/plain")
    return HttpResponse(generate_latest(REGISTRY), content_type=CONTENT_TYPE_LATEST)
