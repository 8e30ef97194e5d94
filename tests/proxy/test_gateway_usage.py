"""Every answer of upstream leaves one usage row with what it reported, and nothing else does."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tenants.facts import TenantFacts
from tenants.models import Usage
from tenants.scope import tenant_scope
from tests.make import make_key
from tests.proxy.conftest import Customer, make_customer
from tests.proxy.demo import Demo
from tests.proxy.pages import PORT, index_knowledge
from tests.proxy.serving import Reply, send, serving_process
from tests.proxy.wire import MODEL, Session, chat, chat_headers, text
from tests.waiting import until

pytestmark = pytest.mark.usefixtures("upstream")


def rows(tenant: TenantFacts) -> list[Usage]:
    with tenant_scope(tenant):
        return list(Usage.objects.filter(tenant_id=tenant.id).order_by("created_at"))


def row_of(tenant: TenantFacts, reply: Reply) -> Usage:
    name = reply.headers["x-kb-request-id"]
    return until(lambda: next((row for row in rows(tenant) if row.request_id == name), None))  # type: ignore[return-value]


def post(base: str, customer: Customer, body: bytes, *more: tuple[str, str], **options: Any) -> Reply:
    return send(base, "POST", "/v1/messages", body, chat_headers(customer.key, *more), **options)


def test_it_works(base: str, customer: Customer, upstream: Demo) -> None:
    hour = {**text("A long text to keep. " * 300), "cache_control": {"type": "ephemeral", "ttl": "1h"}}
    upstream.script({"kind": "text", "text": "Found.", "usage": {"server_tool_use": {"web_search_requests": 2}}})
    user = json.dumps({"device_id": "0", "session_id": "from-metadata"})
    row = row_of(customer.tenant, post(base, customer, chat("Hello there", system=[hour], metadata={"user_id": user})))
    reported = upstream.log[0].usage

    assert reported is not None
    assert row.key_public_id == customer.key.rsplit("_", 1)[0]
    assert (row.team, row.model, row.session_id) == ("team", MODEL, "from-metadata")
    assert (row.status, row.x_cache, row.outcome) == (200, "MISS", "complete")
    assert (row.input_tokens, row.output_tokens) == (reported["input_tokens"], reported["output_tokens"])
    assert row.cache_write_1h_tokens == reported["cache_creation"]["ephemeral_1h_input_tokens"] > 1000
    assert row.server_tool_use == {"web_search_requests": 2}
    assert row.ttfb_ms is not None
    assert 0 < row.upstream_ms <= row.total_ms
    assert 0 < row.overhead_ms < row.total_ms


def test_a_stream_is_booked(base: str, customer: Customer, upstream: Demo) -> None:
    session = Session().ask("Hello")
    cumulative = {"input_tokens": 900, "output_tokens": 321, "cache_read_input_tokens": 70}
    upstream.script({"kind": "text", "text": "words " * 9, "delta_usage": cumulative})
    reply = send(base, "POST", "/v1/messages", session.body(), session.headers(customer.key))
    row = row_of(customer.tenant, reply)

    assert (row.input_tokens, row.output_tokens, row.cache_read_tokens) == (900, 321, 70)
    assert row.session_id == session.id


@pytest.mark.parametrize(
    ("behaviour", "leave_after", "outcome"),
    [
        ({"kind": "stream_error", "text": "Half of it. " * 9, "after": 7}, None, "error"),
        ({"kind": "cut", "text": "Half of it. " * 9, "after": 7}, None, "cut"),
        ({"kind": "text", "text": "Long. " * 400, "gap": 0.03}, 0.4, "aborted"),
    ],
)
def test_a_broken_stream_is_booked_as_reported(
    base: str,
    customer: Customer,
    upstream: Demo,
    behaviour: dict[str, Any],
    leave_after: float | None,
    outcome: str,
) -> None:
    upstream.script(behaviour)
    reply = post(base, customer, chat("Hi", stream=True), leave_after=leave_after)
    row = row_of(customer.tenant, reply)
    entry = upstream.log[0]

    assert entry.usage is not None
    assert row.outcome == outcome
    assert row.input_tokens == entry.usage["input_tokens"]
    assert entry.usage["output_tokens"] <= row.output_tokens <= entry.produced
    assert row.output_tokens > 1


def test_an_error_is_booked_without_tokens(base: str, customer: Customer, upstream: Demo) -> None:
    upstream.script({"kind": "error", "status": 529})
    row = row_of(customer.tenant, post(base, customer, chat("Hi")))

    assert (row.status, row.outcome, row.input_tokens, row.model) == (529, "error", 0, MODEL)


def test_nothing_else_leaves_a_row(base: str, customer: Customer, upstream: Demo) -> None:
    upstream.script({"kind": "cut", "after": -1})
    post(base, customer, chat("No answer"))
    post(base, Customer(customer.tenant, make_key(customer.tenant, scopes=["query"])), chat("Refused"))
    send(base, "POST", "/v1/messages/count_tokens", chat("Counted"), chat_headers(customer.key))
    send(base, "GET", "/v1/models", None, chat_headers(customer.key))
    last = row_of(customer.tenant, post(base, customer, chat("Booked")))

    assert [row.request_id for row in rows(customer.tenant)] == [last.request_id]


def test_knowledge_is_booked(base: str, upstream: Demo) -> None:
    customer = make_customer(upstream, search_deadline_ms="5000")
    index_knowledge(customer.tenant)
    row = row_of(customer.tenant, post(base, customer, chat(PORT)))

    assert row.x_cache == "KNOWLEDGE-RAG"
    assert 50 < row.knowledge_tokens <= 1000


def test_rows_are_written_before_the_process_ends(customer: Customer, upstream: Demo) -> None:
    with serving_process() as base:
        replies = [post(base, customer, chat(f"Number {number}")) for number in range(20)]

    assert {row.request_id for row in rows(customer.tenant)} == {r.headers["x-kb-request-id"] for r in replies}


def test_fifty_streams_hold_no_connection_of_a_pool_of_two(customer: Customer, upstream: Demo) -> None:
    """While all of them stream, another request still finds a connection at once."""
    index_knowledge(customer.tenant)
    upstream.script(default={"kind": "text", "text": "word " * 200, "gap": 0.1})
    with serving_process(KB_DATABASE_POOL="2") as base, ThreadPoolExecutor(50) as clients:
        running = [clients.submit(post, base, customer, chat(f"{PORT} {number}", stream=True)) for number in range(50)]
        until(lambda: len(upstream.log) == 50, seconds=30)
        fresh = Customer(customer.tenant, make_key(customer.tenant))
        counted = send(base, "POST", "/v1/messages/count_tokens", chat(PORT), chat_headers(fresh.key))
        still = sum(not stream.done() for stream in running)
        streams = [stream.result() for stream in running]

    assert counted.status == 200
    assert still == 50
    assert float(counted.headers["x-kb-overhead-ms"]) < 1000
    assert all(b"message_stop" in reply.body and not reply.cut for reply in streams)
