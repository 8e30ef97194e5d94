"""Whether this process lives and can serve: `/health`, `/livez`, `/readyz`, and `/metrics`, which is closed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from django.db import DEFAULT_DB_ALIAS, Error, connections
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.recorder import MigrationRecorder
from django.http import HttpRequest, HttpResponse, JsonResponse

from knowledge import embedding

OK = "ok"
_migrated = False


def health(request: HttpRequest) -> HttpResponse:
    """Answer `ok`: the process takes requests."""
    return HttpResponse("ok\n", content_type="text/plain", headers={"cache-control": "no-store"})


def readyz(request: HttpRequest) -> JsonResponse:
    """Answer 200 when requests can be served, else 503, with a word on each part."""
    found = parts()
    reasons = [f"{name}: {state}" for name, state in found.items() if state != OK]
    body = {"ready": not reasons, "parts": dict(found), "reasons": reasons}
    answer = JsonResponse(body, status=503 if reasons else 200, headers={"cache-control": "no-store"})
    # A probe asks several times a second while a server starts: not ready is its answer, not an error to log.
    vars(answer)["_has_been_logged"] = True
    return answer


def metrics(request: HttpRequest) -> HttpResponse:
    """Answer as if nothing were here: there is no token that opens it."""
    return HttpResponse("not found\n", status=404, content_type="text/plain")


# The paths that need no key. No page's middleware sees them: an address is good enough a host for a probe.
OPEN_PATHS: Final[Mapping[str, Callable[[HttpRequest], HttpResponse]]] = {
    "/health": health,
    "/livez": health,
    "/readyz": readyz,
    "/metrics": metrics,
}


def parts() -> dict[str, str]:
    """Return `ok` or a reason for the database, its migrations, the embedder and the queue."""
    found = {"database": _asked("SELECT 1", failed="can't be reached")}
    if found["database"] == OK:
        found["migrations"] = _migrations()
        queue = "SELECT 1 FROM procrastinate_jobs, procrastinate_workers LIMIT 1"
        found["queue"] = _asked(queue, failed="its tables can't be read")
    else:
        found |= dict.fromkeys(("migrations", "queue"), "unknown without the database")
    found["embedder"] = OK if embedding.is_ready() else "the model is not loaded (yet; the log says if it failed)"
    return found


def _asked(statement: str, *, failed: str) -> str:
    try:
        with connections[DEFAULT_DB_ALIAS].cursor() as cursor:
            cursor.execute(statement)
            cursor.fetchall()
    except Error:
        return failed
    return OK


def _migrations() -> str:
    """Compare what is applied with what this code brings; asked until it is complete, then never again."""
    global _migrated
    if _migrated:
        return OK
    try:
        applied = MigrationRecorder(connections[DEFAULT_DB_ALIAS]).applied_migrations()
    except Error:
        return "can't be read"
    loader = MigrationLoader(None, ignore_no_migrations=True)
    missing = [name for name in loader.disk_migrations if name not in applied]
    if missing:
        return f"{len(missing)} not applied; run `manage.py migrate --database owner`"
    _migrated = True
    return OK
