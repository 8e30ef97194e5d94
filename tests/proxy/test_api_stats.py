"""`GET /v1/stats` and `GET /knowledge/stats`."""

from __future__ import annotations

from knowledge.embedding import current_spec
from proxy.api.query import StatsAnswer
from tenants.facts import TenantFacts
from tests.make import make_key
from tests.proxy.api import FILLER, call, fill


def test_it_works(tenant: TenantFacts) -> None:
    fill(tenant)
    fill(tenant, ["One more page."], source="other", folder="more")
    body = call("GET", "/v1/stats", key=make_key(tenant)).json

    StatsAnswer.model_validate(body, extra="forbid")
    assert set(body) == set(StatsAnswer.model_fields)
    assert (body["chunks"], body["pages"], body["sources"]) == (len(FILLER) + 1, len(FILLER) + 1, 2)
    assert (body["phase"], body["engine"]) == ("1-sqlite", "postgres-hybrid")
    assert body["embedding_model"] == current_spec().id
    assert sum(body["by_source_type"].values()) == body["pages"]
    assert body["last_ingest_at"]


def test_an_empty_corpus(tenant: TenantFacts) -> None:
    body = call("GET", "/v1/stats", key=make_key(tenant)).json

    assert [body[name] for name in ("chunks", "pages", "sources", "phase")] == [0, 0, 0, "1-sqlite-empty"]
    assert body["last_ingest_at"] is None


def test_the_collection_is_named_for_the_tenant(tenant: TenantFacts) -> None:
    fill(tenant)
    body = call("GET", "/knowledge/stats", key=make_key(tenant)).json

    assert body == {"collection": tenant.slug, "points_count": len(FILLER), "status": "Green"}


def test_the_rivals_pages_are_not_counted(tenant: TenantFacts, rival: TenantFacts) -> None:
    fill(tenant)

    assert call("GET", "/v1/stats", key=make_key(rival)).json["chunks"] == 0
    assert call("GET", "/knowledge/stats", key=make_key(rival)).json["points_count"] == 0
