"""`POST /v1/query`."""

from __future__ import annotations

from typing import Any

import pytest

from knowledge.ingest import GivenChunk, ingest_chunks
from proxy.api.query import QueryAnswer, shortened
from tenants.facts import TenantFacts
from tests.make import make_key, make_tenant
from tests.proxy.api import FILLER, Answer, assert_refused, call, fill, index, paths

LONG = "The orvane pump has a long story. " + "It was repaired again and again with patience. " * 30


@pytest.fixture
def key(tenant: TenantFacts) -> str:
    """A key of a tenant with two pages, for tests that add more."""
    fill(tenant, FILLER[:2])
    return make_key(tenant)


@pytest.fixture(scope="module")
def shelves() -> str:
    """A key of a tenant with many pages, for tests that only ask."""
    tenant = make_tenant()
    fill(tenant)
    fill(tenant, [f"Shelf {n} of the depot holds crate {n * 7}." for n in range(70)], folder="many")
    return make_key(tenant)


def ask(key: str, body: Any) -> Answer:
    """Ask with this body."""
    return call("POST", "/v1/query", body, key=key)


def test_it_works(tenant: TenantFacts, key: str) -> None:
    index(tenant, key, "docs/valve.md", "# Valve\n\n## Care\n\nThe harwick valve opens at dawn.\n", source="one")
    answer = ask(key, {"query": "When does the harwick valve open?"})
    body = answer.json
    best = body["hits"][0]

    QueryAnswer.model_validate(body, extra="forbid")
    assert set(body) == {"hits", "phase", "engine", "corpus_version", "took_ms"}
    assert (body["phase"], body["engine"]) == ("1-sqlite", "postgres-hybrid")
    assert (best["path"], best["source"], best["heading"]) == ("docs/valve.md", "one", ["Valve", "Care"])
    assert set(best["page"]) == {"slug", "title", "url"}
    assert best["lines"][0] <= 5 <= best["lines"][1]
    assert "harwick" in best["snippet"]
    assert set(best["ranks"]) == set(best["scores"]) == {"text", "vector"}


def test_an_empty_corpus_says_so(tenant: TenantFacts) -> None:
    body = ask(make_key(tenant), {"query": "anything"}).json

    assert (body["hits"], body["phase"]) == ([], "1-sqlite-empty")


def test_scores_fall_and_eight_hits_come_unless_asked(shelves: str) -> None:
    hits = ask(shelves, {"query": "crate on a shelf of the depot"}).json["hits"]
    scores = [hit["score"] for hit in hits]

    assert len(hits) == 8
    assert scores == sorted(scores, reverse=True)
    assert all(0 <= hit[name] <= 1 for hit in hits for name in ("score", "evidence"))


@pytest.mark.parametrize(("top_k", "number"), [(1, 1), (64, 64), (65, 64), (100_000, 64), (10**30, 64)])
def test_top_k_is_clamped(shelves: str, top_k: int, number: int) -> None:
    assert len(ask(shelves, {"query": "crate on a shelf", "top_k": top_k}).json["hits"]) == number


@pytest.mark.parametrize(
    ("body", "mention"),
    [
        ({"query": "x", "top_k": 0}, "top_k"),
        ({"query": "x", "top_k": -1}, "top_k"),
        ({"query": "x", "top_k": "many"}, "top_k"),
        ({"query": "x", "top_k": "8"}, "top_k"),
        ({"query": "x", "top_k": 8.5}, "top_k"),
        ({"query": "x", "top_k": [8]}, "top_k"),
        ({"query": "x", "topk": 3}, "topk: unknown field"),
        ({"query": "x", "source": "a"}, "source: unknown field"),
        ({"query": "x", "user_facing": 1}, "user_facing"),
        ({"query": "x", "min_evidence": 2}, "min_evidence"),
        ({"query": "x", "min_evidence": "high"}, "min_evidence"),
        ({"query": "x", "app": 5}, "app"),
        ({"query": "x", "app": "\0"}, "app: holds a NUL"),
        ({"query": "x", "path_prefix": "a" * 1001}, "path_prefix"),
        ({"top_k": 3}, "query: is missing"),
        ({"query": ""}, "query"),
        ({"query": "   \n"}, "query: is blank"),
        ({"query": 5}, "query"),
        ({"query": None}, "query"),
        ({"query": "я" * 12_001}, "12000"),
        ({"query": "crate\0shelf"}, "query: holds a NUL"),
        ({"query": "crate \ud800 shelf"}, "query: holds half of a surrogate"),
        ([1], "body: must be a JSON object"),
        ("text", "body: must be a JSON object"),
        (b"null", "body: must be a JSON object"),
        (b"{query", "not valid JSON"),
        (b'{"query":"\xff\xfe"}', "not UTF-8"),
        (b'{"query":"x","min_evidence":NaN}', "NaN"),
        (b'{"query":"x","top_k":' + b"9" * 5000 + b"}", "number too long"),
        (b"[" * 100_000, "nested too deeply"),
        (b"", "body"),
    ],
)
def test_a_bad_body_is_refused_by_name(shelves: str, body: Any, mention: str) -> None:
    assert_refused(ask(shelves, body), 400, "invalid_request_error", mention)


@pytest.mark.parametrize(
    "query", ["поиск " * 2_000, "\x01\x1b[31m\u202e", "a & ! | <-> :* ' \\ ((", "🦀" * 300, "%s %(x)s {0}", "'; --"]
)
def test_odd_questions_are_answered(shelves: str, query: str) -> None:
    assert ask(shelves, {"query": query}).status == 200


def test_fields_that_are_null_are_as_if_not_given(shelves: str) -> None:
    body = dict.fromkeys(["top_k", "source_type", "app", "product", "path_prefix", "user_facing", "full_text"])

    assert len(ask(shelves, {"query": "violin", **body}).json["hits"]) == 8


def test_a_snippet_is_cut_between_words(tenant: TenantFacts, key: str) -> None:
    ingest_chunks(tenant, [GivenChunk(LONG, "long.md", 0)])
    hit = ask(key, {"query": "orvane pump story"}).json["hits"][0]

    assert hit["path"] == "long.md"
    assert 400 < len(hit["snippet"]) <= 480
    assert LONG.startswith(hit["snippet"].removesuffix("…") + " ")


def test_a_text_without_spaces_is_cut_too() -> None:
    assert shortened("x" * 500) == "x" * 479 + "…"
    assert shortened("x" * 480) == "x" * 480


def test_full_text_is_the_chunk_as_ingested(tenant: TenantFacts, key: str) -> None:
    ingest_chunks(tenant, [GivenChunk(LONG, "long.md", 0)])
    hits = ask(key, {"query": "orvane pump story", "full_text": True}).json["hits"]

    assert hits[0]["snippet"] == LONG


def test_full_text_needs_the_scope_pages(tenant: TenantFacts) -> None:
    key = make_key(tenant, scopes=["query"])

    assert_refused(ask(key, {"query": "x", "full_text": True}), 403, "permission_error", "`pages`")
    assert ask(key, {"query": "x", "full_text": False}).status == 200


def test_min_evidence_drops_what_is_weaker(shelves: str) -> None:
    best = ask(shelves, {"query": "How many strings has the violin?"}).json["hits"]
    cut = (best[0]["evidence"] + best[-1]["evidence"]) / 2
    kept = ask(shelves, {"query": "How many strings has the violin?", "min_evidence": cut}).json["hits"]

    assert [hit["chunk_id"] for hit in kept] == [hit["chunk_id"] for hit in best if hit["evidence"] >= cut]
    assert 0 < len(kept) < len(best)


def test_filters_leave_what_matches(tenant: TenantFacts, key: str) -> None:
    index(tenant, key, "a/one.md", "The oakley sensor of racks.\n", source_type="doc", app="racks", product="p")
    index(tenant, key, "b/two.md", "The oakley sensor of halls.\n", source_type="model", app="halls", product="q")

    assert paths(key, "oakley sensor", source_type="model") == ["b/two.md"]
    assert paths(key, "oakley sensor", app="racks") == ["a/one.md"]
    assert paths(key, "oakley sensor", product="q") == ["b/two.md"]
    assert paths(key, "oakley sensor", path_prefix="a/") == ["a/one.md"]
    assert paths(key, "oakley sensor", app="racks", product="q") == []


def test_user_facing_leaves_pages_that_are_marked(tenant: TenantFacts, key: str) -> None:
    index(tenant, key, "help/door.md", "How to open the pantry door.\n", user_facing=True)
    index(tenant, key, "internal/door.md", "How to open the pantry door from inside.\n")

    assert paths(key, "pantry door", user_facing=True) == ["help/door.md"]
    assert {"help/door.md", "internal/door.md"} <= set(paths(key, "pantry door", user_facing=False))


def test_a_request_cannot_widen_its_keys_filter(tenant: TenantFacts, key: str) -> None:
    index(tenant, key, "a.md", "The oakley sensor of one.\n", source="one", source_type="doc")
    index(tenant, key, "b.md", "The oakley sensor of two.\n", source="two", source_type="model")
    narrow = make_key(tenant, sources=["one"], source_types=["doc"])

    assert paths(narrow, "oakley sensor") == ["a.md"]
    assert paths(narrow, "oakley sensor", source_type="doc") == ["a.md"]
    assert paths(narrow, "oakley sensor", source_type="model") == []


def test_nothing_in_common_still_tells_the_corpus(tenant: TenantFacts, key: str) -> None:
    narrow = make_key(tenant, source_types=["doc"])
    seen, unseen = (ask(narrow, {"query": "violin", "source_type": kind}).json for kind in ("doc", "model"))

    assert unseen["hits"] == []
    assert (unseen["phase"], unseen["corpus_version"]) == ("1-sqlite", seen["corpus_version"])


def test_explain_adds_how_it_came_about(shelves: str) -> None:
    body = ask(shelves, {"query": "violin", "explain": True}).json

    assert body["explain"]["gate"] == 0.25
    assert set(body["explain"]["prefixes"]) == {hit["chunk_id"] for hit in body["hits"]}


def test_the_rival_finds_its_own_only(tenant: TenantFacts, rival: TenantFacts, key: str) -> None:
    index(tenant, key, "secret/harbour.md", "The launch code of the harbour is tealcanary.\n", app="mine")
    theirs = make_key(rival)
    fill(rival, FILLER[:2])

    assert paths(key, "launch code of the harbour")[0] == "secret/harbour.md"
    answer = ask(theirs, {"query": "launch code of the harbour", "explain": True})
    assert b"tealcanary" not in answer.body
    assert b"secret/" not in answer.body
    assert paths(theirs, "launch code", app="mine") == []
    assert call("POST", f"/t/{tenant.slug}/v1/query", {"query": "launch code"}, key=theirs).status == 401
