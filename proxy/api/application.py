"""The ninja API: its reference pages, its keys and scopes, and its errors as ours."""

from __future__ import annotations

from typing import Any, ClassVar, NoReturn, cast

import structlog
from django.http import HttpRequest
from ninja import NinjaAPI
from ninja.errors import HttpError, ValidationError
from ninja.security.base import AuthBase

from knowledge.embedding import EmbeddingFailed
from knowledge.ingest import BadFlag, BadSource
from proxy.api.bodies import JsonBody, message_of
from proxy.api.door import MachineRequest, refuse_too_large
from proxy.callers import admit
from proxy.errors import ApiError, InvalidRequest, Overloaded
from tenants.facts import Caller

log = structlog.get_logger(__name__)
api = NinjaAPI(
    title="kbplatform",
    version="1",
    description=(
        "Machine endpoints. Every path exists at the root and below `/t/<tenant>/`. Send a key as `x-api-key`, as "
        "a Bearer token or as the password of HTTP Basic. Errors have the shape of Anthropic's API."
    ),
    urls_namespace="machine",
    docs_url="/v1/docs",
    openapi_url="/v1/openapi.json",
    parser=JsonBody(),
)


class Scope(AuthBase):
    """Lets a key in that has a scope, and then refuses a body over the limit."""

    openapi_type: ClassVar = "apiKey"
    openapi_in: ClassVar = "header"
    openapi_name: ClassVar = "x-api-key"

    def __init__(self, scope: str) -> None:
        super().__init__()
        self.scope = scope

    def __call__(self, request: HttpRequest) -> Caller:
        """Return the caller; raises NoPermission or TooLarge."""
        machine = cast(MachineRequest, request)
        caller = admit(machine.caller, slug=machine.slug, scope=self.scope)
        refuse_too_large(request)
        return caller


@api.exception_handler(ValidationError)
def _invalid(request: HttpRequest, error: ValidationError) -> NoReturn:
    raise InvalidRequest(
        message_of((item["loc"][_depth(item["loc"]) :], item["type"], item["msg"]) for item in error.errors)
    )


@api.exception_handler(HttpError)
def _http_error(request: HttpRequest, error: HttpError) -> NoReturn:
    if isinstance(error.__cause__, ApiError):
        raise error.__cause__
    raise InvalidRequest(error.message) from error


@api.exception_handler(BadSource)
@api.exception_handler(BadFlag)
def _bad_value(request: HttpRequest, error: Exception) -> NoReturn:
    raise InvalidRequest(str(error)) from error


@api.exception_handler(EmbeddingFailed)
def _not_embedded(request: HttpRequest, error: EmbeddingFailed) -> NoReturn:
    log.warning("a request could not be embedded", error=str(error))
    raise Overloaded("The text can't be embedded at the moment; send the same request again.") from error


@api.exception_handler(Exception)
def _any_error(request: HttpRequest, error: Exception) -> NoReturn:
    raise error


def _depth(place: tuple[Any, ...]) -> int:
    """Return how many parts of a place are ninja's own: where the value came from, and our argument's name."""
    return 2 if place[:1] == ("body",) else 1
