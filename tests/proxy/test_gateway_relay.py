"""Requests reach upstream unchanged and answers come back as they were, when they were."""

from __future__ import annotations

import json
from typing import Any

import pytest
from anthropic import Anthropic, AsyncAnthropic

from tests.make import make_key
from tests.proxy.conftest import UPSTREAM_KEY, Customer, make_customer
from tests.proxy.demo import Demo
from tests.proxy.serving import send
from tests.proxy.wire import MODEL, Session, chat, chat_headers, dump
from tests.waiting import until

pytestmark = pytest.mark.usefixtures("upstream")


def post(base: str, customer: Customer, body: bytes, *more: tuple[str, str], **options: Any) -> Any:
    return send(base, "POST", "/v1/messages", body, chat_headers(customer.key, *more), **options)


def test_it_works(base: str, customer: Customer, upstream: Demo) -> None:
    body = chat("Hello there")
    reply = post(base, customer, body)
    [entry] = upstream.log

    assert reply.status == 200
    assert json.loads(reply.body)["type"] == "message"
    assert (entry.method, entry.path, entry.body) == ("POST", "/v1/messages", body)
    assert reply.headers["x-cache"] == "MISS"
    assert reply.headers["x-kb-request-id"].startswith("req_")
    assert float(reply.headers["x-kb-overhead-ms"]) >= 0
    assert reply.headers["request-id"].startswith("req_demo")


BODIES = {
    "numbers": b'{"x":[1e0,1E+2,-0,1.50,12345678901234567890123,1e-400],"messages":[{"role":"user","content":"n"}]}',
    "space_and_doubled_keys": b'{ "x":1 , "x": 2,\r\n"messages":[ {"role":"user","content":"s"}]}\n\n',
    "surrogates": rb'{"messages":[{"role":"user","content":"\u00e9 \u0000 \/ \ud83d \ud83D\uDE00"}]}',
    "unicode": '{"messages":[{"role":"user","content":"naïve Привет 🦊 \u2028"}]}'.encode(),
    "not_json": b"this is {not json",
    "not_utf8": b'{"messages":[{"role":"user","content":"\xff\xfe"}]}',
    "list": b"[1, 2]",
    "null_messages": b'{"messages":null}',
    "strange_content": b'{"messages":[{"role":"user","content":[7,null,"loose"]},{"role":"user"},"odd"]}',
    "nothing": b"",
    "deep": b'{"x":' + b"[" * 3000 + b"]" * 3000 + b"}",
    "a_megabyte": chat("word " * 300_000),
}


@pytest.mark.parametrize("name", BODIES)
def test_a_body_arrives_byte_for_byte(base: str, customer: Customer, upstream: Demo, name: str) -> None:
    reply = post(base, customer, BODIES[name])
    [entry] = upstream.log

    assert entry.body == BODIES[name]
    assert entry.status == reply.status


def test_a_chunked_body_arrives(base: str, customer: Customer, upstream: Demo) -> None:
    body = chat("word " * 1000)
    reply = post(base, customer, body, chunked=True)
    [entry] = upstream.log

    assert reply.status == 200
    assert entry.body == body


def test_headers_and_query_arrive(base: str, customer: Customer, upstream: Demo) -> None:
    more = [
        ("anthropic-beta", "one-2030-01-01,two"),
        ("anthropic-beta", "three"),
        ("x-future", "kept Привет".encode().decode("latin-1")),
        ("cookie", "a=b"),
        ("x-kb-top-k", "3"),
        ("connection", "x-hop"),
        ("x-hop", "gone"),
    ]
    send(base, "POST", "/v1/messages?beta=true&x=%C3%A9%20+&e=", chat("Hi"), chat_headers(customer.key, *more))
    [entry] = upstream.log

    assert entry.query == "beta=true&x=%C3%A9%20+&e="
    assert entry.header("anthropic-beta") == "one-2030-01-01,two, three"
    assert entry.header("anthropic-version") == "2026-10-21"
    assert entry.header("user-agent") == "Anthropic/Python 2.14.0"
    assert entry.header("accept-encoding") == "identity"
    assert entry.header("x-future") == "kept Привет".encode().decode("latin-1")
    assert not {name.lower() for name, _ in entry.headers} & {"cookie", "x-hop", "x-kb-top-k", "authorization"}
    assert customer.key not in str(entry.headers)
    assert entry.header("x-api-key") == UPSTREAM_KEY


def test_a_key_of_ours_in_any_other_header_stays_here(base: str, customer: Customer, upstream: Demo) -> None:
    more = (("x-forwarded-authorization", f"Bearer {customer.key}"), ("x-note", "kept"))
    send(base, "POST", "/v1/messages", chat("Hi"), chat_headers(customer.key, *more))
    [entry] = upstream.log

    assert entry.header("x-note") == "kept"
    assert customer.key not in str(entry.headers)


def test_a_tenants_path_and_a_base_that_ends_in_v1(base: str, customer: Customer, upstream: Demo) -> None:
    for path in (
        "/v1/v1/messages",
        f"/t/{customer.tenant.slug}/v1/messages",
        f"/t/{customer.tenant.slug}/v1/v1/messages",
    ):
        assert send(base, "POST", path, chat("Hi"), chat_headers(customer.key)).status == 200

    assert {entry.path for entry in upstream.log} == {"/v1/messages"}


def test_a_base_urls_own_path_is_kept(base: str, upstream: Demo) -> None:
    customer = make_customer(upstream, upstream_url=f"{upstream.url}/anthropic/")
    post(base, customer, chat("Hi"))

    assert upstream.log[0].path == "/anthropic/v1/messages"


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    "fault",
    [
        {"status": 400, "message": "messages.1: `thinking` blocks cannot be modified. Прочее…"},
        {"status": 401},
        {"status": 413},
        {"status": 429, "headers": {"retry-after": "37", "anthropic-ratelimit-unified-status": "rejected"}},
        {"status": 500, "headers": {"x-should-retry": "true"}},
        {"status": 529},
        {"status": 503, "body": "<html>upstream</html>\n", "headers": {"content-type": "text/html"}},
        {"status": 418, "body": '{"type" : "error",\n"error":{"type":"brand_new","details":{"n":1.50}} }'},
        {"status": 502, "body": ""},
    ],
)
def test_faults_come_back_unchanged_and_once(
    base: str, customer: Customer, upstream: Demo, fault: dict[str, Any], stream: bool
) -> None:
    upstream.script(default={"kind": "error", "message": "scripted fault", **fault})
    reply = post(base, customer, chat("Hi", stream=stream))

    assert reply.status == fault["status"]
    assert len(upstream.log) == 1
    assert reply.headers.get("retry-after") == fault.get("headers", {}).get("retry-after")
    assert reply.headers.get("x-should-retry") == fault.get("headers", {}).get("x-should-retry")
    if "body" in fault:
        assert reply.body == fault["body"].encode()
    else:
        assert json.loads(reply.body)["error"]["message"] == fault.get("message", "scripted fault")


def test_a_stream_comes_back_as_it_was_sent(base: str, customer: Customer, upstream: Demo) -> None:
    call = {"name": "Read", "input": {"b": "ü", "a": [1, 2.5]}}
    behaviour = {"kind": "tools", "thinking": "Let me see.", "text": "Ünïcode 🦊", "tools": [call], "noise": True}
    upstream.script(behaviour, behaviour)
    through = post(base, customer, Session().ask("Read it").body())
    direct = send(upstream.url, "POST", "/v1/messages", Session().ask("Read it").body(), [("x-api-key", "k")])

    assert through.headers["content-type"] == direct.headers["content-type"]
    assert b"event: message_stop" in through.body
    assert without_ids(through.body) == without_ids(direct.body)


def without_ids(stream: bytes) -> list[bytes]:
    return [line for line in stream.splitlines() if b"msg_demo" not in line and b"toolu_demo" not in line]


def test_the_first_byte_comes_long_before_the_last(base: str, customer: Customer, upstream: Demo) -> None:
    upstream.script({"kind": "text", "text": "sixteen letters " * 20, "gap": 0.05})
    reply = post(base, customer, Session().ask("Slowly").body())
    times = [moment for moment, _ in reply.arrivals]

    assert times[0] < times[-1] / 2
    assert len(times) >= 10


def test_an_error_in_the_stream_is_relayed(base: str, customer: Customer, upstream: Demo) -> None:
    upstream.script({"kind": "stream_error", "text": "word " * 50, "after": 5, "message": "Overloaded, later"})
    reply = post(base, customer, Session().ask("Breaks").body())

    assert reply.status == 200
    assert reply.body.endswith(b'"message":"Overloaded, later"}}\n\n')
    assert not reply.cut


@pytest.mark.parametrize("after", [0, 6])
def test_a_cut_stream_is_cut_for_the_client_too(base: str, customer: Customer, upstream: Demo, after: int) -> None:
    upstream.script({"kind": "cut", "text": "word " * 50, "after": after})
    reply = post(base, customer, Session().ask("Is cut").body())

    assert reply.status == 200
    assert reply.cut
    assert b"message_stop" not in reply.body


@pytest.mark.parametrize("stream", [False, True])
def test_no_answer_at_all_is_a_502_that_may_be_retried(
    base: str, customer: Customer, upstream: Demo, stream: bool
) -> None:
    upstream.script(default={"kind": "cut", "after": -1})
    reply = post(base, customer, chat("Hi", stream=stream))

    assert reply.status == 502
    assert json.loads(reply.body)["error"]["type"] == "api_error"
    assert reply.headers.get("x-should-retry") != "false"
    assert len(upstream.log) == 1


def test_a_status_that_http_does_not_know_is_a_502(base: str, customer: Customer, upstream: Demo) -> None:
    upstream.script({"kind": "error", "status": 999, "message": "odd"})
    reply = post(base, customer, chat("Hi"))

    assert (reply.status, json.loads(reply.body)["error"]["type"]) == (502, "api_error")
    assert "999" in json.loads(reply.body)["error"]["message"]


def test_upstream_down_is_a_502(base: str, upstream: Demo) -> None:
    customer = make_customer(upstream, upstream_url="http://127.0.0.1:9")
    reply = post(base, customer, chat("Hi"))

    assert (reply.status, json.loads(reply.body)["error"]["type"]) == (502, "api_error")


def test_a_tenant_may_allow_retries(base: str, upstream: Demo) -> None:
    customer = make_customer(upstream, retries="2")
    again = {"kind": "error", "status": 529, "headers": {"x-should-retry": "true"}}
    upstream.script(again, {"kind": "cut", "after": -1}, {"kind": "text", "text": "At last."})
    reply = post(base, customer, chat("Hi"))

    assert reply.status == 200
    assert len({entry.body for entry in upstream.log}) == 1
    assert len(upstream.log) == 3


@pytest.mark.parametrize(
    "refusal",
    [
        {"status": 529},
        {"status": 429, "headers": {"x-should-retry": "true", "retry-after": "600"}},
        {"status": 400, "headers": {"x-should-retry": "true"}},
    ],
)
def test_only_what_upstream_marks_is_retried(base: str, upstream: Demo, refusal: dict[str, Any]) -> None:
    customer = make_customer(upstream, retries="2")
    upstream.script(default={"kind": "error", **refusal})

    assert post(base, customer, chat("Hi")).status == refusal["status"]
    assert len(upstream.log) == 1


@pytest.mark.parametrize(
    ("behaviour", "stream"),
    [
        ({"kind": "text", "text": "sixteen letters " * 400, "gap": 0.05}, True),
        ({"kind": "text", "text": "x", "delay": 20}, True),
        ({"kind": "text", "text": "x", "delay": 20}, False),
    ],
)
def test_a_client_that_leaves_cancels_upstream(
    base: str, customer: Customer, upstream: Demo, behaviour: dict[str, Any], stream: bool
) -> None:
    upstream.script(behaviour)
    post(base, customer, chat("Leaving", stream=stream), leave_after=0.4)

    assert until(lambda: upstream.log and upstream.log[0].client_left, seconds=3)


def test_liveness_needs_no_key(base: str) -> None:
    assert send(base, "HEAD", "/").status == 200
    assert send(base, "GET", "/health").body == b"ok"
    assert send(base, "HEAD", "/t/no-such-tenant").status == 200


def test_the_sdk_works_unchanged(base: str, customer: Customer) -> None:
    with Anthropic(base_url=base, api_key=customer.key, max_retries=0) as client:
        answer = client.messages.create(model=MODEL, max_tokens=9, messages=[{"role": "user", "content": "Hi"}])
        with client.messages.stream(model=MODEL, max_tokens=9, messages=[{"role": "user", "content": "Hi"}]) as stream:
            streamed = stream.get_final_message()

    assert answer.content[0].type == streamed.content[0].type == "text"
    assert answer.content[0].text == streamed.content[0].text


async def test_the_asynchronous_sdk_works_unchanged(base: str, customer: Customer) -> None:
    async with AsyncAnthropic(base_url=f"{base}/t/{customer.tenant.slug}", auth_token=customer.key) as client:
        answer = await client.messages.create(model=MODEL, max_tokens=9, messages=[{"role": "user", "content": "Hi"}])

    assert answer.role == "assistant"


def test_tokens_are_counted_upstream(base: str, customer: Customer, upstream: Demo) -> None:
    body = dump({"model": MODEL, "messages": [{"role": "user", "content": "How much?"}]})
    reply = send(base, "POST", "/v1/messages/count_tokens?beta=true", body, chat_headers(customer.key))

    assert json.loads(reply.body)["input_tokens"] > 0
    assert (upstream.log[0].body, upstream.log[0].query) == (body, "beta=true")


def test_models_are_upstreams_and_cut_to_the_keys(base: str, customer: Customer) -> None:
    narrow = chat_headers(make_key(customer.tenant, models=[MODEL]))
    everything = json.loads(send(base, "GET", "/v1/models?limit=9", None, chat_headers(customer.key)).body)
    cut = json.loads(send(base, "GET", "/v1/models", None, narrow).body)
    other = next(model["id"] for model in everything["data"] if model["id"] != MODEL)

    assert len(everything["data"]) == 3
    assert [model["id"] for model in cut["data"]] == [MODEL]
    assert (cut["first_id"], cut["last_id"]) == (MODEL, MODEL)
    assert send(base, "GET", f"/v1/models/{MODEL}", None, narrow).status == 200
    assert send(base, "GET", f"/v1/models/{other}", None, narrow).status == 404
    assert send(base, "GET", f"/v1/models/{other}", None, chat_headers(customer.key)).status == 200


@pytest.mark.parametrize("name", ["..", ".", "%2e%2e", "..%2fmessages%2fbatches", "a%2F..%2Fb", "%252e%252e", "..%5Cb"])
def test_a_models_name_leads_nowhere_else(base: str, customer: Customer, upstream: Demo, name: str) -> None:
    reply = send(base, "GET", f"/v1/models/{name}", None, chat_headers(customer.key))

    assert reply.status == 404
    assert json.loads(reply.body)["error"]["type"] == "not_found_error"
    assert upstream.log == []


def test_a_models_name_may_hold_a_slash(base: str, customer: Customer, upstream: Demo) -> None:
    send(base, "GET", "/v1/models/vendor%2Fmodel", None, chat_headers(customer.key))
    assert [entry.path for entry in upstream.log] != []
