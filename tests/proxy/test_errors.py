"""Refusals and failures have Anthropic's shape."""

import json

import pytest

from proxy import errors


def test_it_works() -> None:
    error = errors.NoPermission("This key lacks the scope `query`.")

    assert json.loads(errors.body_of(error, "req_1")) == {
        "type": "error",
        "error": {"type": "permission_error", "message": "This key lacks the scope `query`."},
        "request_id": "req_1",
    }
    assert errors.headers_of(error) == [("content-type", "application/json"), ("x-should-retry", "false")]


@pytest.mark.parametrize(
    ("error", "status", "kind", "retry"),
    [
        (errors.InvalidRequest("x"), 400, "invalid_request_error", False),
        (errors.NotAuthenticated("x"), 401, "authentication_error", False),
        (errors.Billing("x"), 402, "billing_error", False),
        (errors.NoPermission("x"), 403, "permission_error", False),
        (errors.NotFound("x"), 404, "not_found_error", False),
        (errors.TooLarge("x"), 413, "request_too_large", False),
        (errors.RateLimited("x", retry_after=3), 429, "rate_limit_error", None),
        (errors.Failure("x"), 500, "api_error", None),
        (errors.Failure("x", status=502), 502, "api_error", None),
        (errors.Overloaded("x"), 529, "overloaded_error", None),
    ],
)
def test_each_error_has_its_status_type_and_word_on_retries(
    error: errors.ApiError, status: int, kind: str, retry: bool | None
) -> None:
    assert (error.status, error.type, error.retry) == (status, kind, retry)


def test_a_rate_limit_says_when_to_come_back() -> None:
    assert ("retry-after", "3") in errors.headers_of(errors.RateLimited("x", retry_after=3))


def test_an_errors_own_headers_are_sent() -> None:
    error = errors.NotAuthenticated("x", headers=[("www-authenticate", "Bearer")])

    assert ("www-authenticate", "Bearer") in errors.headers_of(error)


def test_request_ids_are_unlike() -> None:
    assert errors.new_request_id() != errors.new_request_id()
    assert errors.new_request_id().startswith("req_")
