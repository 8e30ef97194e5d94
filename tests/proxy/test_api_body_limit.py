"""Bodies over the limit, over real sockets."""

from __future__ import annotations

import http.client
import json
import socket
import urllib.parse
from collections.abc import Iterator

import pytest
from django.conf import settings

from tenants.facts import TenantFacts
from tests.make import make_key
from tests.proxy.serving import Reply, send

MEBIBYTE = 1 << 20


def headers(key: str) -> list[tuple[str, str]]:
    """A key and a type."""
    return [("authorization", f"Bearer {key}"), ("content-type", "application/json")]


def assert_shape(reply: Reply, status: int, kind: str) -> None:
    """Check status and shape of an error."""
    assert reply.status == status
    assert json.loads(reply.body)["error"]["type"] == kind
    assert reply.headers["x-should-retry"] == "false"


def test_it_works(base: str, tenant: TenantFacts) -> None:
    body = json.dumps({"query": "anything", "app": None, "path_prefix": ""}).encode()

    assert send(base, "POST", "/v1/query", body + b" " * MEBIBYTE, headers(make_key(tenant))).status == 200


def test_the_rival_gets_in_by_its_own_path_only(base: str, tenant: TenantFacts, rival: TenantFacts) -> None:
    body, key = b'{"query":"anything"}', make_key(rival)

    assert_shape(send(base, "POST", f"/t/{tenant.slug}/v1/query", body, headers(key)), 401, "authentication_error")
    assert send(base, "POST", f"/t/{rival.slug}/v1/query", body, headers(key)).status == 200


@pytest.mark.parametrize("path", ["/v1/query", "/knowledge/ingest", "/v1/documents"])
def test_two_hundred_megabytes_are_refused(base: str, tenant: TenantFacts, path: str) -> None:
    reply = sent_in_pieces(base, path, make_key(tenant), pieces=200, declared=True)

    assert_shape(reply, 413, "request_too_large")
    assert f"{settings.KB_MAX_BODY_BYTES:,}" in json.loads(reply.body)["error"]["message"]


def test_so_they_are_without_a_length(base: str, tenant: TenantFacts) -> None:
    reply = sent_in_pieces(base, "/v1/query", make_key(tenant), pieces=40, declared=False)

    assert_shape(reply, 413, "request_too_large")


def test_key_and_scope_come_first(base: str, tenant: TenantFacts) -> None:
    stranger = sent_in_pieces(base, "/v1/query", "kb_sk_none_none", pieces=40, declared=True)
    without = sent_in_pieces(base, "/v1/query", make_key(tenant, scopes=["ask"]), pieces=40, declared=True)

    assert_shape(stranger, 401, "authentication_error")
    assert_shape(without, 403, "permission_error")


def test_the_answer_does_not_wait_for_the_body(base: str, tenant: TenantFacts) -> None:
    url = urllib.parse.urlsplit(base)
    head = f"POST /v1/query HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {make_key(tenant)}\r\n"
    with socket.create_connection((str(url.hostname), url.port or 80), timeout=10) as connection:
        connection.sendall(f"{head}content-length: 209715200\r\n\r\n".encode() + b"{")
        assert connection.recv(64).startswith(b"HTTP/1.1 413")


def test_the_connection_can_be_used_again(base: str, tenant: TenantFacts) -> None:
    url, key = urllib.parse.urlsplit(base), make_key(tenant)
    connection = http.client.HTTPConnection(str(url.hostname), url.port or 80, timeout=30)
    connection.request("POST", "/v1/query", b" " * (33 * MEBIBYTE), dict(headers(key)))
    refused = connection.getresponse()
    refused.read()
    connection.request("GET", "/v1/stats", headers=dict(headers(key)))
    answered = connection.getresponse()
    answered.read()
    connection.close()

    assert (refused.status, answered.status) == (413, 200)


def sent_in_pieces(base: str, path: str, key: str, *, pieces: int, declared: bool) -> Reply:
    """Send a body of so many mebibytes the way a client does that reads only afterwards."""
    url = urllib.parse.urlsplit(base)
    connection = http.client.HTTPConnection(str(url.hostname), url.port or 80, timeout=60)
    length = {"content-length": str(pieces * MEBIBYTE)} if declared else {}
    connection.request("POST", path, mebibytes(pieces), {**dict(headers(key)), **length}, encode_chunked=not declared)
    answer = connection.getresponse()
    reply = Reply(answer.status, {name.lower(): value for name, value in answer.getheaders()}, [(0.0, answer.read())])
    connection.close()
    return reply


def mebibytes(number: int) -> Iterator[bytes]:
    """Yield so many mebibytes of spaces."""
    piece = b" " * MEBIBYTE
    for _ in range(number):
        yield piece
