"""The door to every machine path behind Django: key, then path, then its answer, each refusal in one shape.

Machine paths don't pass through the pages' middleware: they have no session, language, form token or host
rule, and no page of Django's own ever answers them.
"""

from __future__ import annotations

from typing import cast

import structlog
from django.core.exceptions import BadRequest, RequestDataTooBig, SuspiciousOperation, TooManyFilesSent
from django.db import InterfaceError, OperationalError, connections
from django.http import Http404, HttpRequest, HttpResponse
from django.http.multipartparser import MultiPartParserError
from django.http.response import HttpResponseBase
from django.urls import Resolver404, resolve

from proxy.api.body_limit import is_too_large, too_large
from proxy.api.paths import MachinePath, Needs, later, machine_path
from proxy.callers import admit, credentials
from proxy.errors import (
    ApiError,
    Failure,
    InvalidRequest,
    NotAuthenticated,
    NotFound,
    Overloaded,
    body_of,
    headers_of,
    new_request_id,
)
from tenants.callers import cached_caller
from tenants.facts import Caller

URLS = "proxy.urls"
log = structlog.get_logger(__name__)


class WrongMethod(InvalidRequest):
    """The path exists, but not for this method; the message names those that it has."""

    status = 405


class MachineRequest(HttpRequest):
    """A request that came through the door."""

    request_id: str
    slug: str | None
    caller: Caller
    auth: Caller  # the caller once more, when it has the scope of the endpoint


def is_machine_path(path: str) -> bool:
    """Return whether a decoded path is for programs."""
    return machine_path(path) is not None


def answer(request: HttpRequest) -> HttpResponseBase:
    """Answer a request for a machine path. Never raises, and leaves no database connection in use."""
    request_id = new_request_id()
    try:
        response = _answered(request, request_id)
    except ApiError as error:
        response = refusal(error, request_id)
    except Exception as error:
        response = refusal(translated(error, request_id), request_id)
    finally:
        _release_connections()
    response.headers["request-id"] = request_id
    response.headers["x-content-type-options"] = "nosniff"
    response._has_been_logged = True  # type: ignore[attr-defined]  # refusals are no news; failures are logged here
    return response


def refusal(error: ApiError, request_id: str) -> HttpResponse:
    """Return the answer that an error stands for."""
    return HttpResponse(body_of(error, request_id), status=error.status, headers=dict(headers_of(error)))


def translated(error: Exception, request_id: str) -> ApiError:
    """Return what a caller is told of an error that is not ours; what is unexpected goes to the log."""
    if isinstance(error, Http404):
        return NotFound("There is nothing here; see /v1/docs.")
    if isinstance(error, RequestDataTooBig):
        return too_large()
    if isinstance(error, TooManyFilesSent):
        return InvalidRequest("file: too many files in one request; send them in several")
    if isinstance(error, MultiPartParserError):
        return InvalidRequest(f"The multipart body can't be read: {error}")
    if isinstance(error, BadRequest | SuspiciousOperation):
        return InvalidRequest("The request can't be read; check its headers and its body.")
    log.error("a machine path failed", request_id=request_id, exc_info=error)
    if isinstance(error, OperationalError | InterfaceError):
        return Overloaded("The database can't be reached, or took too long; try again.")
    return Failure("Something failed here; the log has it under this request_id.")


def _answered(request: HttpRequest, request_id: str) -> HttpResponseBase:
    place = machine_path(request.path_info) or MachinePath(None, request.path_info)
    needs = later(place.path) or Needs("")
    machine = _with_caller(request, request_id, place, needs=needs)
    admit(machine.caller, slug=place.slug, scope=needs.scope, kind=needs.kind)
    try:
        match = resolve(place.path, urlconf=URLS)
    except Resolver404:
        raise NotFound(f"{request.method} {place.path[:200]} is not part of this version; see /v1/docs.") from None
    response: HttpResponseBase = match.func(machine, *match.args, **match.kwargs)
    if response.status_code == 405:
        allowed = response.headers.get("Allow", "")
        raise WrongMethod(f"{place.path} takes {allowed}, not {request.method}.", headers=[("allow", allowed)])
    return response


def _with_caller(request: HttpRequest, request_id: str, place: MachinePath, *, needs: Needs) -> MachineRequest:
    """Return the request with who is calling; raises NotAuthenticated."""
    names = ((b"x-api-key", "HTTP_X_API_KEY"), (b"authorization", "HTTP_AUTHORIZATION"))
    headers = [
        (name, str(request.META[meta]).encode("latin-1", "replace")) for name, meta in names if meta in request.META
    ]
    key = credentials(headers).ours
    try:
        caller = admit(cached_caller(key) if key else None, slug=place.slug, scope="", kind=needs.kind)
    except NotAuthenticated as error:
        asked = [("www-authenticate", needs.challenge)] if needs.challenge else []
        raise NotAuthenticated(error.message, headers=asked) from None
    machine = cast(MachineRequest, request)
    machine.request_id, machine.slug, machine.caller = request_id, place.slug, caller
    return machine


def refuse_too_large(request: HttpRequest) -> None:
    """Raise TooLarge for a body over the limit, before any of it is read. Comes after key and scope."""
    if is_too_large(request):
        raise too_large()


def _release_connections() -> None:
    for connection in connections.all(initialized_only=True):
        if not connection.in_atomic_block:
            connection.close()
