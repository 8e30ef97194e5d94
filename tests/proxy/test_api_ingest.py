"""`POST /knowledge/ingest`."""

from __future__ import annotations

from typing import Any

import pytest

from tenants.facts import TenantFacts
from tests.make import make_key
from tests.proxy.api import FILLER, Answer, assert_refused, call, paths

GOOD = {"content": "good", "file_path": "a.md", "chunk_index": 0}
MODEL_TALK = (
    "This session is being continued from a previous conversation that ran out of context. "
    "The conversation is summarized below: the user asked for a test of the gribnax cache."
)


@pytest.fixture
def key(tenant: TenantFacts) -> str:
    """A key of a tenant without pages."""
    return make_key(tenant)


def ingest(key: str, *chunks: tuple[str, int, str], **fields: Any) -> Answer:
    """Send (path, index, content) triples."""
    rows = [{"file_path": path, "chunk_index": index, "content": text} for path, index, text in chunks]
    return call("POST", "/knowledge/ingest", {"chunks": rows, **fields}, key=key)


def test_it_works(key: str) -> None:
    sent = [(f"guide/{number}.md", 0, text) for number, text in enumerate(FILLER)]
    answer = ingest(key, *sent)

    assert (answer.status, answer.json) == (200, {"stored": 8, "skipped": 0, "failed": 0, "total": 8})
    assert paths(key, "How many strings has the violin?")[0] == "guide/4.md"


def test_the_same_again_changes_nothing(key: str) -> None:
    sent = [("a.md", 0, "One."), ("a.md", 1, "Two.")]
    ingest(key, *sent)
    before = call("GET", "/v1/stats", key=key).json

    assert ingest(key, *sent).json["stored"] == 2
    assert call("GET", "/v1/stats", key=key).json == before


def test_replace_drops_what_was_not_sent(key: str) -> None:
    ingest(key, ("a.md", 0, "The brindle word."), ("a.md", 1, "The cuvex word."), ("b.md", 0, "The dolmar word."))
    ingest(key, ("a.md", 0, "The brindle word."), replace=True)

    assert call("GET", "/v1/stats", key=key).json["chunks"] == 2
    assert paths(key, "dolmar")


def test_a_heading_goes_to_the_hit(key: str) -> None:
    chunk = {**GOOD, "content": "The kelvane pump.", "heading": ["Guide", "Install"]}
    call("POST", "/knowledge/ingest", {"chunks": [chunk], "source": "manual"}, key=key)
    hit = call("POST", "/v1/query", {"query": "kelvane pump"}, key=key).json["hits"][0]

    assert (hit["heading"], hit["source"]) == (["Guide", "Install"], "manual")


def test_what_is_kept_out_has_its_number_and_reason(key: str) -> None:
    sent = [("a.md", 0, "Fine."), ("b.md", 0, MODEL_TALK), ("", 0, "no path"), ("c.md", -1, "no index")]
    body = ingest(key, *sent).json

    assert {name: body[name] for name in ("stored", "skipped", "failed", "total")} == {
        "stored": 1,
        "skipped": 1,
        "failed": 2,
        "total": 4,
    }
    assert [error["chunk"] for error in body["errors"]] == [1, 2, 3]
    assert all(error["reason"] for error in body["errors"])


def test_what_the_database_cannot_hold_is_replaced(key: str) -> None:
    assert ingest(key, ("nul.md", 0, "nul \0 word"), ("half.md", 0, "lone \ud800 word")).json["stored"] == 2
    hit = call("POST", "/v1/query", {"query": "nul word"}, key=key).json["hits"][0]
    assert hit["snippet"] == "nul \ufffd word"


@pytest.mark.parametrize(
    ("body", "mention"),
    [
        ({}, "chunks: is missing"),
        ({"chunks": "x"}, "chunks"),
        ({"chunks": [1]}, "chunks.0: must be a JSON object"),
        ({"chunks": [{**GOOD, "content": 7}]}, "chunks.0.content"),
        ({"chunks": [GOOD, {**GOOD, "chunk_index": "one"}]}, "chunks.1.chunk_index"),
        ({"chunks": [{"content": "x"}]}, "chunks.0.file_path: is missing"),
        ({"chunks": [{**GOOD, "colour": "red"}]}, "chunks.0.colour: unknown field"),
        ({"chunks": [GOOD], "sauce": "x"}, "sauce: unknown field"),
        ({"chunks": [GOOD], "source": ""}, "source"),
        ({"chunks": [GOOD], "source": " "}, "source"),
        ({"chunks": [GOOD], "replace": "yes"}, "replace"),
        ({"chunks": [{}] * 10}, "and 27 more"),
        ({"chunks": [GOOD] * 10_001}, "10000"),
        ([], "body: must be a JSON object"),
        (b'{"chunks":"\xff"}', "not UTF-8"),
    ],
)
def test_a_bad_body_is_refused_by_name(key: str, body: Any, mention: str) -> None:
    assert_refused(call("POST", "/knowledge/ingest", body, key=key), 400, "invalid_request_error", mention)


def test_a_key_of_some_sources_writes_to_no_other(tenant: TenantFacts) -> None:
    narrow = make_key(tenant, sources=["one"])

    assert_refused(ingest(narrow, ("a.md", 0, "Text.")), 403, "permission_error", "one")
    assert ingest(narrow, ("a.md", 0, "Text."), source="one").status == 200


def test_the_rival_writes_into_its_own_corpus(tenant: TenantFacts, rival: TenantFacts, key: str) -> None:
    ingest(key, ("a.md", 0, "The brindle word."))
    ingest(make_key(rival), ("a.md", 0, "The cuvex word."), replace=True)

    assert paths(key, "brindle") == ["a.md"]
    assert call("GET", "/v1/stats", key=key).json["chunks"] == 1
