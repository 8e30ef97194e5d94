"""Chunks that a caller cut."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest
from django.db import connection

from knowledge.ingest import BadSource, ChunkError, GivenChunk, ingest_chunks
from knowledge.models import Source
from knowledge.search import stats
from tenants.facts import TenantFacts
from tenants.scope import tenant_scope
from tests.knowledge.ingested import chunks, given, holders, page, paths, store, upload, version

MODEL_TALK = "As an AI language model, I don't have access to your files."


def test_it_works(tenant: TenantFacts) -> None:
    found = ingest_chunks(tenant, given("notes/a.md", "# Title\n\nThe quarrel word.", "The second part."))

    assert (found.stored, found.skipped, found.failed, found.total, found.errors) == (2, 0, 0, 2, ())
    assert holders(tenant, "quarrel") == ["notes/a.md"]
    assert page(tenant, "notes/a.md").title == "Title"
    assert page(tenant, "notes/a.md").body == "# Title\n\nThe quarrel word.\n\nThe second part."
    assert [(chunk.first_line, chunk.last_line) for chunk in chunks(tenant, "notes/a.md")] == [(1, 3), (5, 5)]


def test_the_text_stays_as_given_and_the_heading_goes_before_it(tenant: TenantFacts) -> None:
    ingest_chunks(tenant, [GivenChunk("  two\n  blanks \n", "a.md", 0, ("Guide", "Install"))])

    (chunk,) = chunks(tenant, "a.md")
    assert (chunk.text, chunk.heading) == ("  two\n  blanks \n", ["Guide", "Install"])
    assert chunk.prefix == "a.md\nGuide > Install"


def test_without_a_heading_the_file_name_is_the_title(tenant: TenantFacts) -> None:
    store(tenant, "notes/plain.md", "No heading at all.")

    assert page(tenant, "notes/plain.md").title == "plain.md"


def test_again_counts_as_stored_and_moves_nothing(tenant: TenantFacts) -> None:
    store(tenant, "a.md", "one", "two")
    before, rows = version(tenant), [chunk.pk for chunk in chunks(tenant, "a.md")]

    found = ingest_chunks(tenant, given("a.md", "one", "two"))

    assert found.stored == 2
    assert version(tenant) == before
    assert [chunk.pk for chunk in chunks(tenant, "a.md")] == rows


def test_other_content_replaces_the_chunk_of_that_index(tenant: TenantFacts) -> None:
    store(tenant, "a.md", "The brindle word.", "The cuvex word.")

    ingest_chunks(tenant, [GivenChunk("The everin word.", "a.md", 1)])

    assert [chunk.text for chunk in chunks(tenant, "a.md")] == ["The brindle word.", "The everin word."]
    assert holders(tenant, "cuvex") == []


def test_a_later_batch_adds_to_the_page_and_leaves_its_chunks_alone(tenant: TenantFacts) -> None:
    store(tenant, "a.md", "# One\n\nfirst", "second")
    rows = [chunk.pk for chunk in chunks(tenant, "a.md")]

    ingest_chunks(tenant, given("a.md", "third", "fourth", first=2))

    found = chunks(tenant, "a.md")
    assert [chunk.text for chunk in found] == ["# One\n\nfirst", "second", "third", "fourth"]
    assert [chunk.pk for chunk in found[:2]] == rows
    assert found[3].first_line == 9


def test_indexes_may_have_gaps_and_come_in_any_order(tenant: TenantFacts) -> None:
    ingest_chunks(tenant, [GivenChunk("late", "a.md", 40), GivenChunk("early", "a.md", 7)])

    assert [(chunk.ord, chunk.text) for chunk in chunks(tenant, "a.md")] == [(7, "early"), (40, "late")]


def test_replace_drops_what_was_not_sent(tenant: TenantFacts) -> None:
    store(tenant, "a.md", "The brindle word.", "The cuvex word.", "The dolmar word.")
    store(tenant, "b.md", "The everin word.")
    store(tenant, "a.md", "The fastrel word.", source="other")

    ingest_chunks(tenant, given("a.md", "The brindle word."), replace=True)

    assert [chunk.text for chunk in chunks(tenant, "a.md")] == ["The brindle word."]
    assert (holders(tenant, "cuvex"), holders(tenant, "dolmar")) == ([], [])
    assert (holders(tenant, "everin"), holders(tenant, "fastrel")) == (["b.md"], ["a.md"])


def test_the_same_path_in_two_sources_is_two_pages(tenant: TenantFacts) -> None:
    store(tenant, "a.md", "The lorquin wheel.", source="one")
    store(tenant, "a.md", "The mirabeck wheel.", source="two")

    assert (holders(tenant, "lorquin"), holders(tenant, "mirabeck")) == (["a.md"], ["a.md"])
    assert {page(tenant, "a.md", source=name).slug for name in ("one", "two")} == {"a-md", "a-md-two"}


def test_model_talk_is_kept_out_with_its_reason(tenant: TenantFacts) -> None:
    found = ingest_chunks(tenant, [*given("a.md", "Kept."), *given("b.md", MODEL_TALK)])

    assert (found.stored, found.skipped, found.failed) == (1, 1, 0)
    assert [error.chunk for error in found.errors] == [1]
    assert found.errors[0].reason
    assert paths(tenant) == ["a.md"]


def test_a_chunk_that_turned_into_model_talk_takes_the_old_one_away(tenant: TenantFacts) -> None:
    store(tenant, "a.md", "The brindle word.", "Stays.")

    ingest_chunks(tenant, given("a.md", MODEL_TALK))

    assert [chunk.text for chunk in chunks(tenant, "a.md")] == ["Stays."]


def test_a_page_of_which_nothing_is_left_goes(tenant: TenantFacts) -> None:
    store(tenant, "a.md", "The brindle word.")

    ingest_chunks(tenant, given("a.md", MODEL_TALK))

    assert (paths(tenant), stats(tenant).chunks) == ([], 0)


def test_broken_rules_are_counted_and_the_rest_is_stored(tenant: TenantFacts) -> None:
    wrong = [GivenChunk(" \n", "a.md", 1), GivenChunk("x", " ", 0), GivenChunk("x", "a.md", -1)]
    wrong += [GivenChunk("x" * 70_000, "a.md", 2), GivenChunk("x", "p" * 1_025, 0)]

    found = ingest_chunks(tenant, [*given("a.md", "good"), *wrong])

    assert (found.stored, found.failed, found.total) == (1, 5, 6)
    assert found.errors[0] == ChunkError(1, "content: it is empty")
    assert paths(tenant) == ["a.md"]


def test_a_broken_rule_leaves_what_stands_there(tenant: TenantFacts) -> None:
    store(tenant, "a.md", "one", "two")

    ingest_chunks(tenant, [*given("a.md", "one"), GivenChunk("", "a.md", 1)], replace=True)

    assert [chunk.text for chunk in chunks(tenant, "a.md")] == ["one", "two"]


def test_nothing_stored_makes_no_source(tenant: TenantFacts) -> None:
    ingest_chunks(tenant, given("a.md", MODEL_TALK), source="empty")

    with tenant_scope(tenant):
        assert not Source.objects.filter(tenant_id=tenant.id, name="empty").exists()


def test_characters_that_cannot_be_stored_are_replaced(tenant: TenantFacts) -> None:
    ingest_chunks(tenant, [GivenChunk("nul \0 and \ud800 lone", "a\0.md", 0, ("h\0",))])

    (chunk,) = chunks(tenant, "a\ufffd.md")
    assert (chunk.text, chunk.heading) == ("nul \ufffd and \ufffd lone", ["h\ufffd"])


@pytest.mark.parametrize("name", ["", "  ", "x" * 101, "a\nb"])
def test_a_bad_source_is_refused_by_name(tenant: TenantFacts, name: str) -> None:
    with pytest.raises(BadSource, match="source"):
        ingest_chunks(tenant, given("a.md", "x"), source=name)


def test_chunks_take_the_place_of_a_whole_document(tenant: TenantFacts) -> None:
    upload(tenant, "a.md", "# Old\n\nThe brindle word.\n")

    store(tenant, "a.md", "The cuvex word.")

    assert (holders(tenant, "brindle"), holders(tenant, "cuvex")) == ([], ["a.md"])


def test_tenants_never_mix(tenant: TenantFacts, rival: TenantFacts) -> None:
    store(tenant, "a.md", "The brindle word.")
    store(rival, "a.md", "The cuvex word.")

    assert (holders(tenant, "cuvex"), holders(rival, "brindle")) == ([], [])
    assert (stats(tenant).chunks, stats(rival).chunks) == (1, 1)


def test_batches_of_one_page_at_once_lose_nothing(tenant: TenantFacts) -> None:
    def send(number: int) -> None:
        try:
            ingest_chunks(tenant, given("a.md", f"part {number}", first=number))
        finally:
            connection.close()

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(send, range(12)))

    assert [chunk.text for chunk in chunks(tenant, "a.md")] == [f"part {number}" for number in range(12)]
