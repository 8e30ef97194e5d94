"""Who may not come in, and what they are told."""

from __future__ import annotations

import json
import re
from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from tenants.facts import TenantFacts
from tenants.keys import revoke_key
from tenants.registry import set_tenant
from tests.make import make_key
from tests.proxy.conftest import UPSTREAM_KEY, Customer, make_customer
from tests.proxy.demo import Demo
from tests.proxy.serving import Reply, send
from tests.proxy.wire import MODEL, chat, chat_headers, dump
from tests.waiting import until

STRANGER = "kb_sk_nosuchkeyid00_" + "x" * 43
PATHS = [
    ("POST", "/v1/messages"),
    ("POST", "/v1/messages/count_tokens"),
    ("GET", "/v1/models"),
    ("GET", "/v1/messages/batches"),
    ("POST", "/v1/files"),
]


def post(base: str, key: str, body: bytes = b"", path: str = "/v1/messages", *more: tuple[str, str]) -> Reply:
    return send(base, "POST", path, body or chat("Hi"), chat_headers(key, *more))


def error_of(reply: Reply) -> tuple[int, str]:
    value = json.loads(reply.body)
    assert value["type"] == "error"
    assert value["error"]["message"]
    assert value["request_id"].startswith("req_")
    assert reply.headers["x-cache"] == "BYPASS"
    assert reply.headers["x-kb-request-id"] == value["request_id"]
    return reply.status, value["error"]["type"]


@pytest.mark.parametrize(("method", "path"), PATHS)
@pytest.mark.parametrize("key", [STRANGER, "sk-ant-foreign", ""])
def test_strangers_are_refused(base: str, upstream: Demo, method: str, path: str, key: str) -> None:
    reply = send(base, method, path, chat("Hi") if method == "POST" else None, chat_headers(key))

    assert error_of(reply) == (401, "authentication_error")
    assert reply.headers["x-should-retry"] == "false"
    assert upstream.log == []


def test_another_tenants_path_answers_like_an_unknown_key(base: str, customer: Customer, upstream: Demo) -> None:
    rival = make_customer(upstream, "rival")
    unknown = post(base, STRANGER)
    others = [
        post(base, customer.key, path=f"/t/{rival.tenant.slug}/v1/messages"),
        post(base, customer.key, path="/t/no-such-tenant/v1/messages"),
        post(base, make_key(customer.tenant, expires_at=timezone.now() - timedelta(seconds=1))),
        post(base, make_key(customer.tenant, kind="pk", scopes=["ask"])),
    ]

    assert {(reply.status, blank(reply)) for reply in others} == {(401, blank(unknown))}
    assert upstream.log == []


def blank(reply: Reply) -> str:
    named = {k: v for k, v in reply.headers.items() if k not in ("date", "x-kb-overhead-ms")}
    return re.sub(r"req_\w+", "req_", f"{reply.body!r} {named}")


def test_a_missing_scope_is_named(base: str, customer: Customer, upstream: Demo) -> None:
    reply = post(base, make_key(customer.tenant, scopes=["query"]))

    assert error_of(reply) == (403, "permission_error")
    assert b"messages" in reply.body
    assert upstream.log == []


def test_a_revoked_key_stops_within_a_second(base: str, customer: Customer) -> None:
    assert post(base, customer.key).status == 200
    revoke_key(customer.tenant, customer.key.rsplit("_", 1)[0], actor="test")

    until(lambda: post(base, customer.key).status == 401, seconds=1)


@pytest.mark.parametrize("chunked", [False, True])
def test_a_body_over_32_mebibytes(base: str, customer: Customer, upstream: Demo, chunked: bool) -> None:
    reply = send(base, "POST", "/v1/messages", chat("x" * 33_600_000), chat_headers(customer.key), chunked=chunked)

    assert error_of(reply) == (413, "request_too_large")
    assert b"32 MiB" in reply.body
    assert upstream.log == []


def test_a_model_off_the_list_is_named(base: str, customer: Customer, upstream: Demo) -> None:
    key = make_key(customer.tenant, models=[MODEL])
    refused = post(base, key, chat("Hi", model="claude-other"))

    assert error_of(refused) == (403, "permission_error")
    assert b"claude-other" in refused.body
    assert upstream.log == []
    assert post(base, key).status == 200


@pytest.mark.parametrize(
    "body",
    [
        b"{not json",
        b'{"model":7,"messages":[]}',
        b"[]",
        b'{"messages":[]}',
        b'{"model":"%s","m\\u006fdel":"other","messages":[]}' % MODEL.encode(),
    ],
)
@pytest.mark.parametrize("restriction", [{"models": [MODEL]}, {"limits": {"money_per_day": 1}}])
def test_a_model_that_cannot_be_told_is_refused_where_it_matters(
    base: str, customer: Customer, upstream: Demo, body: bytes, restriction: dict[str, Any]
) -> None:
    refused = post(base, make_key(customer.tenant, **restriction), body)

    assert error_of(refused) == (403, "permission_error")
    assert upstream.log == []


def test_batches_and_files_are_not_here_yet(base: str, customer: Customer) -> None:
    for method, path in (("POST", "/v1/messages/batches"), ("GET", "/v1/files"), ("GET", "/v1/messages/other")):
        body = dump({}) if method == "POST" else None
        assert error_of(send(base, method, path, body, chat_headers(customer.key))) == (404, "not_found_error")


@pytest.mark.parametrize(("method", "path"), [("GET", "/v1/messages"), ("POST", "/v1/models")])
def test_another_method_is_told_the_right_one(base: str, customer: Customer, method: str, path: str) -> None:
    body = dump({}) if method == "POST" else None
    reply = send(base, method, path, body, chat_headers(customer.key))

    assert reply.status == 405
    assert reply.headers["allow"] in reply.body.decode()


def test_without_a_credential_the_setting_is_named(base: str, upstream: Demo, tenant: TenantFacts) -> None:
    reply = post(base, make_key(tenant))

    assert error_of(reply) == (401, "authentication_error")
    assert b"ANTHROPIC_API_KEY" in reply.body
    assert reply.headers["x-should-retry"] == "false"


def test_the_servers_credential_never_goes_to_a_tenants_own_address(
    base: str, upstream: Demo, tenant: TenantFacts, settings: object
) -> None:
    settings.KB_UPSTREAM_KEY = "sk-ant-the-servers-own"  # type: ignore[attr-defined]
    changed = set_tenant(tenant, {"upstream_url": upstream.url}, actor="test")
    reply = post(base, make_key(changed))

    assert error_of(reply) == (401, "authentication_error")
    assert upstream.log == []


def test_your_own_key_goes_upstream_where_the_tenant_allows_it(base: str, upstream: Demo) -> None:
    customer = make_customer(upstream, bring_your_own_key="1")
    served = post(base, customer.key, chat("Hi"), "/v1/messages", ("authorization", "Bearer sk-ant-mine"))
    refused = post(base, customer.key)
    [entry] = upstream.log

    assert served.status == 200
    assert entry.header("authorization") == "Bearer sk-ant-mine"
    assert entry.header("x-api-key") is None
    assert error_of(refused) == (401, "authentication_error")
    assert b"your own upstream key" in refused.body


def test_a_foreign_credential_stays_here_otherwise(base: str, customer: Customer, upstream: Demo) -> None:
    post(base, customer.key, chat("Hi"), "/v1/messages", ("authorization", "Bearer sk-ant-mine"))

    assert "sk-ant-mine" not in str(upstream.log[0].headers)
    assert upstream.log[0].header("x-api-key") == UPSTREAM_KEY


def test_a_bearer_credential_of_a_tenant_is_sent_as_one(base: str, upstream: Demo) -> None:
    customer = make_customer(upstream, upstream_key="Bearer sk-other-gateway")
    post(base, customer.key)

    assert upstream.log[0].header("authorization") == "Bearer sk-other-gateway"
    assert upstream.log[0].header("x-api-key") is None
