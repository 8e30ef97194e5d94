"""Refusals and failures in the shape that Anthropic's clients read.

    ApiError
    ├── InvalidRequest     400  invalid_request_error
    ├── NotAuthenticated   401  authentication_error
    ├── Billing            402  billing_error
    ├── NoPermission       403  permission_error
    ├── NotFound           404  not_found_error
    ├── TooLarge           413  request_too_large
    ├── RateLimited        429  rate_limit_error      (retry-after)
    ├── Failure            500  api_error             (502 for an upstream that gave no answer)
    └── Overloaded         529  overloaded_error

`retry` becomes the header `x-should-retry`: False where sending the same request again can't help (a client
then stops at once and shows the message, instead of retrying for minutes), None where the client's own rule
is the right one.
"""

import json
import secrets
from collections.abc import Sequence
from typing import ClassVar

__all__ = [
    "ApiError",
    "Billing",
    "Failure",
    "InvalidRequest",
    "NoPermission",
    "NotAuthenticated",
    "NotFound",
    "Overloaded",
    "RateLimited",
    "TooLarge",
    "body_of",
    "headers_of",
    "new_request_id",
]


class ApiError(Exception):
    """An answer that is not what was asked for; the message names the field, the limit and what to do."""

    status: int = 500
    type: ClassVar[str] = "api_error"
    retry: bool | None = None

    def __init__(self, message: str, *, headers: Sequence[tuple[str, str]] = ()) -> None:
        super().__init__(message)
        self.message = message
        self.headers = tuple(headers)


class InvalidRequest(ApiError):
    """The request breaks a documented rule: the field and the rule are named."""

    status = 400
    type = "invalid_request_error"
    retry = False


class NotAuthenticated(ApiError):
    """No key, a wrong one, or a missing upstream credential."""

    status = 401
    type = "authentication_error"
    retry = False


class Billing(ApiError):
    """A money budget is used up: the budget and the moment it resets are named."""

    status = 402
    type = "billing_error"
    retry = False


class NoPermission(ApiError):
    """The key is good but may not do this."""

    status = 403
    type = "permission_error"
    retry = False


class NotFound(ApiError):
    """No such object or path, or one that belongs to somebody else."""

    status = 404
    type = "not_found_error"
    retry = False


class TooLarge(ApiError):
    """The request is larger than the limit that the message names."""

    status = 413
    type = "request_too_large"
    retry = False


class RateLimited(ApiError):
    """A rate limit is reached; `retry_after` in whole seconds says when to come back."""

    status = 429
    type = "rate_limit_error"

    def __init__(self, message: str, *, retry_after: int, headers: Sequence[tuple[str, str]] = ()) -> None:
        super().__init__(message, headers=[("retry-after", str(max(1, retry_after))), *headers])


class Failure(ApiError):
    """Something failed that the caller didn't cause; `status` 502 when it was the upstream. Clients may
    retry.
    """

    def __init__(self, message: str, *, status: int = 500, headers: Sequence[tuple[str, str]] = ()) -> None:
        super().__init__(message, headers=headers)
        self.status = status


class Overloaded(ApiError):
    """This server has no room for the request at the moment. Clients may retry."""

    status = 529
    type = "overloaded_error"


def new_request_id() -> str:
    """Return a fresh id, `req_` and 24 letters or digits, that names one request in answers, logs and
    usage rows.
    """
    return f"req_{secrets.token_hex(12)}"


def body_of(error: ApiError, request_id: str) -> bytes:
    """Return the JSON body `{"type":"error","error":{"type","message"},"request_id"}` as UTF-8."""
    value = {
        "type": "error",
        "error": {"type": error.type, "message": error.message},
        "request_id": request_id,
    }
    return json.dumps(value, ensure_ascii=True, separators=(",", ":")).encode()


def headers_of(error: ApiError) -> list[tuple[str, str]]:
    """Return the answer's headers: content type, `x-should-retry` where the error knows, and the error's
    own.
    """
    retry = [] if error.retry is None else [("x-should-retry", "true" if error.retry else "false")]
    return [("content-type", "application/json"), *retry, *error.headers]
