"""Keys and scopes, asked at every endpoint in the same way."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from tenants.facts import TenantFacts
from tenants.keys import revoke_key, rotate_key
from tenants.models import SCOPES
from tests.make import make_key
from tests.proxy.api import Answer, assert_refused, basic, call

CHUNK = {"content": "walked", "file_path": "walk/x.md", "chunk_index": 0}
ENDPOINTS = [
    ("POST", "/v1/query", {"query": "anything"}, "query"),
    ("GET", "/v1/stats", None, "query"),
    ("POST", "/knowledge/ingest", {"chunks": [CHUNK]}, "ingest"),
    ("GET", "/knowledge/stats", None, "ingest"),
    ("POST", "/v1/documents", {"path": "walk/y.md", "content": "walked"}, "ingest"),
    ("DELETE", "/v1/documents?path=walk/none.md", None, "ingest"),
    ("GET", "/v1/jobs/1", None, "ingest"),
    ("DELETE", "/knowledge/flush", None, "manage"),
    ("POST", "/v1/ask", {"question": "anything"}, "ask"),
    ("POST", "/mcp", {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}, "mcp"),
    ("GET", "/v1/usage", None, "manage"),
]
everywhere = pytest.mark.parametrize(("method", "path", "body", "scope"), ENDPOINTS)


def at_both(tenant: TenantFacts, method: str, path: str, body: Any, key: str | None) -> list[Answer]:
    """Call an endpoint at the root and below the tenant's own path."""
    return [call(method, prefix + path, body, key=key) for prefix in ("", f"/t/{tenant.slug}")]


@pytest.mark.parametrize("prefix", ["", "/t/{slug}"])
@pytest.mark.parametrize("way", ["bearer", "x-api-key", "basic", "both"])
def test_it_works(tenant: TenantFacts, prefix: str, way: str) -> None:
    key = make_key(tenant)
    headers = {
        "bearer": {"authorization": f"Bearer {key}"},
        "x-api-key": {"x-api-key": key},
        "basic": basic(key),
        "both": {"x-api-key": key, "authorization": "Bearer sk-ant-other"},
    }[way]

    assert call("GET", prefix.format(slug=tenant.slug) + "/v1/stats", headers=headers).status == 200


@everywhere
def test_a_wrong_key_is_refused_the_same_way(
    tenant: TenantFacts, rival: TenantFacts, method: str, path: str, body: Any, scope: str
) -> None:
    key = make_key(tenant)
    revoked = make_key(tenant)
    revoke_key(tenant, revoked.rpartition("_")[0], actor="test")
    expired = make_key(tenant, expires_at=timezone.now() - timedelta(seconds=1))
    widget = make_key(tenant, kind="pk", scopes=SCOPES, origins=["https://a.example"])
    wrong_secret = key[:-4] + ("aaaa" if not key.endswith("aaaa") else "bbbb")
    wrong = [None, "sk-ant-api03-nothing", "kb_sk_none_none", wrong_secret, revoked, expired, widget]
    answers = [answer for one in wrong for answer in at_both(tenant, method, path, body, one)]
    answers += [
        call(method, f"/t/{tenant.slug}{path}", body, key=make_key(rival)),
        call(method, f"/t/nowhere{path}", body, key=key),
        call(method, f"/t/{path}", body, key=key),
        call(method, f"/t/{tenant.slug.upper()}{path}", body, key=key),
    ]

    for answer in answers:
        assert_refused(answer, 401, "authentication_error", "API key")
        assert answer.alike() == answers[0].alike()


@everywhere
def test_a_key_without_the_scope_is_refused(tenant: TenantFacts, method: str, path: str, body: Any, scope: str) -> None:
    key = make_key(tenant, scopes=[other for other in SCOPES if other != scope])

    for answer in at_both(tenant, method, path, body, key):
        assert_refused(answer, 403, "permission_error", f"`{scope}`")


@everywhere
def test_key_and_scope_come_before_the_body(tenant: TenantFacts, method: str, path: str, body: Any, scope: str) -> None:
    key = make_key(tenant, scopes=["pages"])

    assert call(method, path, b"{not json").status == 401
    assert call(method, path, b"{not json", key=key).status == 403


@pytest.mark.parametrize("path", ["/v1/ask", "/mcp", "/v1/usage", "/v1/receipts/1", "/v1/receipts/1/feedback"])
def test_what_comes_later_is_not_found_with_a_good_key(tenant: TenantFacts, path: str) -> None:
    for answer in at_both(tenant, "POST", path, {}, make_key(tenant)):
        assert_refused(answer, 404, "not_found_error", path)


def test_a_stranger_at_the_tools_is_told_how_to_sign_in(tenant: TenantFacts) -> None:
    for answer in at_both(tenant, "POST", "/mcp", {}, None):
        assert answer.headers["www-authenticate"] == "Bearer"
    assert "www-authenticate" not in call("GET", "/v1/stats").headers


def test_a_team_key_opens_no_widget_path(tenant: TenantFacts) -> None:
    widget = make_key(tenant, kind="pk", scopes=None, origins=["https://a.example"])

    assert_refused(call("POST", "/widget/v1/session", {}, key=make_key(tenant)), 401, "authentication_error")
    assert_refused(call("POST", "/widget/v1/session", {}, key=widget), 404, "not_found_error")


@pytest.mark.parametrize("path", ["/v1/nothing", "/v1/", "/v1", "/knowledge/other", "/v1/query/", "/v1/jobs/"])
def test_an_unknown_path_asks_for_a_key_first(tenant: TenantFacts, path: str) -> None:
    for answer in at_both(tenant, "GET", path, None, None):
        assert_refused(answer, 401, "authentication_error")
    for answer in at_both(tenant, "GET", path, None, make_key(tenant)):
        assert_refused(answer, 404, "not_found_error", "/v1/docs")


@pytest.mark.parametrize("path", ["", "/", "/admin/", "/t/other/v1/stats", "/static/x.css", "/v1/docs"])
def test_nothing_else_is_below_a_tenants_path(tenant: TenantFacts, path: str) -> None:
    key = make_key(tenant)

    assert_refused(call("GET", f"/t/{tenant.slug}{path}"), 401, "authentication_error")
    assert call("GET", f"/t/{tenant.slug}{path}", key=key).status in (200, 404)
    assert call("GET", f"/t/nowhere{path}", key=key).status == 401


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [
        ("GET", "/v1/query", "POST"),
        ("PUT", "/v1/documents", "POST"),
        ("POST", "/v1/jobs/1", "GET"),
        ("OPTIONS", "/v1/stats", "GET"),
        ("HEAD", "/knowledge/stats", "GET"),
        ("GET", "/knowledge/flush", "DELETE"),
    ],
)
def test_a_wrong_method_names_the_right_one(tenant: TenantFacts, method: str, path: str, allowed: str) -> None:
    answer = call(method, path, key=make_key(tenant))

    assert call(method, path).status == 401
    assert answer.status == 405
    assert allowed in answer.headers["allow"]
    assert method == "HEAD" or allowed in answer.message
    assert answer.headers["x-should-retry"] == "false"


def test_a_host_that_pages_refuse_is_no_matter_here(tenant: TenantFacts) -> None:
    odd = {"host": "nobody.example:99999"}

    assert call("GET", "/v1/stats", key=make_key(tenant), headers=odd).status == 200
    assert_refused(call("GET", "/v1/stats", headers=odd), 401, "authentication_error")


def test_answers_carry_no_pages_headers(tenant: TenantFacts) -> None:
    headers = call("GET", "/v1/stats", key=make_key(tenant), headers={"accept-language": "es"}).headers

    assert not {"set-cookie", "vary", "content-language", "content-security-policy"} & set(headers)
    assert headers["request-id"].startswith("req_")


def test_a_rotated_key_works_until_its_overlap_ends(tenant: TenantFacts) -> None:
    old = make_key(tenant)
    new = rotate_key(tenant, old.rpartition("_")[0], overlap=timedelta(hours=1), actor="test").text

    assert [call("GET", "/v1/stats", key=key).status for key in (old, new)] == [200, 200]
