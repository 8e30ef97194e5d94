"""`DELETE /knowledge/flush`."""

from __future__ import annotations

import pytest

from tenants.facts import TenantFacts
from tenants.models import AuditEntry
from tenants.scope import tenant_scope
from tests.make import make_key
from tests.proxy.api import FILLER, assert_refused, call, fill


@pytest.fixture
def key(tenant: TenantFacts) -> str:
    """A key of a tenant with pages of three sources."""
    fill(tenant, FILLER[:2])
    fill(tenant, ["The brindle page."], source="other", folder="other")
    fill(tenant, ["The wiki page."], source="wiki", folder="wiki")
    return make_key(tenant)


def chunks(key: str) -> int:
    """How many chunks the corpus holds."""
    return int(call("GET", "/v1/stats", key=key).json["chunks"])


def test_it_works(key: str) -> None:
    assert call("DELETE", "/knowledge/flush", key=key).json == {"deleted": 3}
    assert chunks(key) == 1  # the wiki's


def test_a_source_goes_alone(key: str) -> None:
    assert call("DELETE", "/knowledge/flush?source=other", key=key).json == {"deleted": 1}
    assert chunks(key) == 3


def test_the_wiki_goes_when_it_is_named(key: str) -> None:
    assert call("DELETE", "/knowledge/flush?source=wiki", key=key).json == {"deleted": 1}


def test_an_unknown_source_deletes_nothing(key: str) -> None:
    assert call("DELETE", "/knowledge/flush?source=nothing", key=key).json == {"deleted": 0}


@pytest.mark.parametrize("query", ["sauce=other", "source=", "source=a%00b", "source=other&path=x"])
def test_a_misspelt_restriction_deletes_nothing(key: str, query: str) -> None:
    before = chunks(key)

    assert_refused(call("DELETE", f"/knowledge/flush?{query}", key=key), 400, "invalid_request_error")
    assert chunks(key) == before


def test_a_key_of_some_sources_flushes_no_other(tenant: TenantFacts, key: str) -> None:
    narrow = make_key(tenant, sources=["other"])

    assert_refused(call("DELETE", "/knowledge/flush", key=narrow), 403, "permission_error", "other")
    assert call("DELETE", "/knowledge/flush?source=other", key=narrow).json == {"deleted": 1}


def test_the_audit_names_the_key(tenant: TenantFacts, key: str) -> None:
    call("DELETE", "/knowledge/flush", key=key)

    with tenant_scope(tenant):
        entry = AuditEntry.objects.get(action="knowledge.flush")
    assert entry.actor == key.rpartition("_")[0]


def test_the_rival_flushes_its_own_only(tenant: TenantFacts, rival: TenantFacts, key: str) -> None:
    before = chunks(key)

    assert call("DELETE", "/knowledge/flush", key=make_key(rival)).json == {"deleted": 0}
    assert chunks(key) == before
