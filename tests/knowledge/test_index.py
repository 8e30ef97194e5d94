"""Staging and publishing pages."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import numpy as np
import pytest
from django.db import IntegrityError, connection, transaction
from hypothesis import given, settings
from hypothesis import strategies as st

from knowledge import index
from knowledge.embedding import current_spec
from knowledge.index.publishing import slug_of
from knowledge.models import (
    Chunk,
    ChunkTerms,
    Corpus,
    Embedding,
    EmbeddingSet,
    Lexeme,
    Page,
    StagedChunk,
)
from knowledge.search import search, stats
from tenants.facts import TenantFacts
from tenants.scope import tenant_scope
from tests.knowledge.corpus import make_chunks, make_fields, make_page, make_source
from tests.make import make_tenant

MODEL = "hash-384"


def in_thread(work: Callable[[], Any]) -> list[Any]:
    """Run the work in another thread, with a connection of its own; returns what it returned."""
    found: list[Any] = []

    def run() -> None:
        try:
            found.append(work())
        finally:
            connection.close()

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    return found


def run_all(threads: list[threading.Thread]) -> None:
    """Start all threads and wait for them."""
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def texts(tenant: TenantFacts, path: str) -> list[str]:
    """Return the live chunks of a page in order."""
    with tenant_scope(tenant):
        return list(Chunk.objects.filter(page__path=path).order_by("ord").values_list("text", flat=True))


def ids(tenant: TenantFacts, path: str) -> dict[str, int]:
    """Return the ids of a page's live chunks by text."""
    with tenant_scope(tenant):
        return dict(Chunk.objects.filter(page__path=path).values_list("text", "id"))


def version(tenant: TenantFacts) -> int:
    """Return the corpus version."""
    return stats(tenant).corpus_version


def test_it_works(tenant: TenantFacts) -> None:
    done = make_page(tenant, "a.md", ["install the widget", "remove the widget"], prefix="a.md")

    assert done.changed
    assert done.chunks == 2
    assert texts(tenant, "a.md") == ["install the widget", "remove the widget"]
    with tenant_scope(tenant):
        page = Page.objects.get()
        assert (page.slug, page.revision, page.chunk_count) == ("a-md", 1, 2)
        assert not StagedChunk.objects.exists()


def test_an_unchanged_page_is_no_work(tenant: TenantFacts) -> None:
    make_page(tenant, "a.md", ["one", "two"])
    before = version(tenant), ids(tenant, "a.md")

    again = index.publish(tenant, page=make_fields(tenant, "a.md", ["one", "two"]), model_id=MODEL)

    assert not again.changed
    assert (version(tenant), ids(tenant, "a.md")) == before


def test_an_identical_page_staged_again_changes_nothing(tenant: TenantFacts) -> None:
    make_page(tenant, "a.md", ["one", "two"])
    before = version(tenant), ids(tenant, "a.md")

    again = make_page(tenant, "a.md", ["one", "two"])

    assert not again.changed
    assert (version(tenant), ids(tenant, "a.md")) == before


def test_chunks_that_stayed_keep_their_ids(tenant: TenantFacts) -> None:
    make_page(tenant, "a.md", ["one", "two", "three"])
    before = ids(tenant, "a.md")

    make_page(tenant, "a.md", ["zero", "three", "one"])

    after = ids(tenant, "a.md")
    assert texts(tenant, "a.md") == ["zero", "three", "one"]
    assert (after["one"], after["three"]) == (before["one"], before["three"])


def test_staging_shows_nothing(tenant: TenantFacts) -> None:
    make_page(tenant, "a.md", ["old text"])
    page = make_fields(tenant, "a.md", ["new text"])

    index.stage(
        tenant,
        source_id=page.source_id,
        path="a.md",
        content_hash="2",
        model_id=MODEL,
        chunks=make_chunks(["new text"]),
    )

    assert texts(tenant, "a.md") == ["old text"]


def test_an_interrupted_ingest_goes_on_from_what_is_staged(tenant: TenantFacts) -> None:
    page = make_fields(tenant, "a.md", ["one", "two", "three"])
    where: dict[str, Any] = {
        "source_id": page.source_id,
        "path": "a.md",
        "content_hash": page.content_hash,
        "model_id": MODEL,
    }
    chunks = make_chunks(["one", "two", "three"])
    index.stage(tenant, chunks=chunks[:2], **where)

    rest = [chunk for chunk in chunks if chunk.ord not in index.staged(tenant, **where)]
    index.stage(tenant, chunks=rest, **where)
    done = index.publish(tenant, page=page, model_id=MODEL)

    assert [chunk.ord for chunk in rest] == [2]
    assert done.chunks == 3


def test_readers_see_the_old_page_until_the_new_one_is_whole(tenant: TenantFacts) -> None:
    make_page(tenant, "a.md", ["old one", "old two"])
    page = make_fields(tenant, "a.md", ["new one", "new two"])
    index.stage(
        tenant,
        source_id=page.source_id,
        path="a.md",
        content_hash=page.content_hash,
        model_id=MODEL,
        chunks=make_chunks(["new one", "new two"]),
    )

    with pytest.raises(RuntimeError), tenant_scope(tenant):  # noqa: PT012
        index.publish(tenant, page=page, model_id=MODEL)
        meanwhile = in_thread(lambda: texts(tenant, "a.md"))
        raise RuntimeError("the worker dies before its commit")

    assert meanwhile == [["old one", "old two"]]
    assert texts(tenant, "a.md") == ["old one", "old two"]
    assert index.publish(tenant, page=page, model_id=MODEL).changed
    assert texts(tenant, "a.md") == ["new one", "new two"]


def test_a_backend_killed_while_it_publishes_leaves_no_half_page(tenant: TenantFacts) -> None:
    make_page(tenant, "a.md", ["old one", "old two"])
    page = make_fields(tenant, "a.md", ["new one"])
    index.stage(
        tenant,
        source_id=page.source_id,
        path="a.md",
        content_hash=page.content_hash,
        model_id=MODEL,
        chunks=make_chunks(["new one"]),
    )

    def kill() -> None:
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_terminate_backend(%s)", [backend])

    with pytest.raises(Exception, match=r"terminat|closed"), tenant_scope(tenant):  # noqa: PT012
        index.publish(tenant, page=page, model_id=MODEL)
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_backend_pid()")
            backend = cursor.fetchone()[0]
        in_thread(kill)
        Page.objects.count()
    connection.close()

    assert texts(tenant, "a.md") == ["old one", "old two"]
    index.publish(tenant, page=page, model_id=MODEL)
    assert texts(tenant, "a.md") == ["new one"]


def test_one_page_published_by_many_at_once_is_there_once(tenant: TenantFacts) -> None:
    page = make_fields(tenant, "a.md", ["one", "two"])
    failed: list[BaseException] = []

    def work() -> None:
        try:
            make_page(tenant, "a.md", ["one", "two"])
        except index.NothingStaged:  # another has published what both had staged
            pass
        except BaseException as error:
            failed.append(error)
        finally:
            connection.close()

    threads = [threading.Thread(target=work) for _ in range(6)]
    run_all(threads)

    assert failed == []
    assert texts(tenant, page.path) == ["one", "two"]
    assert stats(tenant).chunks == 2


def test_many_pages_of_one_tenant_can_be_published_at_once(tenant: TenantFacts) -> None:
    make_source(tenant)
    failed: list[BaseException] = []

    def work(name: str) -> None:
        try:
            for number in range(4):
                make_page(tenant, f"{name}.md", [f"shared words {name} {number}", "always the same"])
        except BaseException as error:
            failed.append(error)
        finally:
            connection.close()

    threads = [threading.Thread(target=work, args=(name,)) for name in "abcd"]
    run_all(threads)

    assert failed == []
    check_counts(tenant)
    assert stats(tenant).chunks == 8


def test_a_text_without_chunks_is_refused(tenant: TenantFacts) -> None:
    make_page(tenant, "a.md", ["one"])

    with pytest.raises(index.NothingStaged):
        index.publish(tenant, page=make_fields(tenant, "a.md", ["other"]), model_id=MODEL)

    assert texts(tenant, "a.md") == ["one"]


def test_an_emptied_page_has_no_chunks(tenant: TenantFacts) -> None:
    make_page(tenant, "a.md", ["one"])

    done = index.publish(tenant, page=make_fields(tenant, "a.md", []), model_id=MODEL)

    assert (done.changed, done.chunks) == (True, 0)
    assert stats(tenant).pages == 0
    check_counts(tenant)


def test_a_live_chunk_need_not_be_embedded_again(tenant: TenantFacts) -> None:
    make_page(tenant, "a.md", ["one", "two"], prefix="a.md")
    page = make_fields(tenant, "a.md", ["one", "two", "three"])
    live = index.live_hashes(tenant, source_id=page.source_id, path="a.md", model_id=MODEL)
    chunks = [
        replace(chunk, embedding=None) if index.text_hash(chunk.prefix, chunk.text) in live else chunk
        for chunk in make_chunks(["one", "two", "three"], prefix="a.md")
    ]

    index.stage(
        tenant, source_id=page.source_id, path="a.md", content_hash=page.content_hash, model_id=MODEL, chunks=chunks
    )
    done = index.publish(tenant, page=page, model_id=MODEL)

    assert [chunk.embedding is None for chunk in chunks] == [True, True, False]
    assert done.chunks == 3
    check_counts(tenant)


def test_a_chunk_without_any_vector_is_refused(tenant: TenantFacts) -> None:
    make_page(tenant, "a.md", ["one"])
    page = make_fields(tenant, "a.md", ["two"])
    chunk = replace(make_chunks(["two"])[0], embedding=None)
    index.stage(
        tenant, source_id=page.source_id, path="a.md", content_hash=page.content_hash, model_id=MODEL, chunks=[chunk]
    )

    with pytest.raises(index.MissingEmbedding):
        index.publish(tenant, page=page, model_id=MODEL)

    assert texts(tenant, "a.md") == ["one"]


@pytest.mark.parametrize("vector", [np.zeros(384), np.full(384, np.nan), np.ones(384)], ids=["zero", "nan", "long"])
def test_a_bad_vector_is_refused(tenant: TenantFacts, vector: Any) -> None:
    chunk = replace(make_chunks(["one"])[0], embedding=vector.astype(np.float32))

    with pytest.raises(index.BadVector):
        index.stage(
            tenant, source_id=make_source(tenant).id, path="a", content_hash="1", model_id=MODEL, chunks=[chunk]
        )


def test_a_vector_of_another_size_than_its_model_is_refused(tenant: TenantFacts) -> None:
    make_page(tenant, "a.md", ["one"])
    chunk = replace(make_chunks(["one"])[0], embedding=np.eye(1, 12, dtype=np.float32)[0])

    with pytest.raises(index.BadVector, match="384"):
        index.stage(
            tenant, source_id=make_source(tenant).id, path="a", content_hash="1", model_id=MODEL, chunks=[chunk]
        )


def test_a_vector_of_1320_dimensions_fits_the_index(tenant: TenantFacts) -> None:
    vector = np.random.default_rng(1).normal(size=1320).astype(np.float32)
    chunk = replace(make_chunks(["one"])[0], embedding=vector / np.linalg.norm(vector))
    page = make_fields(tenant, "a.md", ["one"])

    index.stage(
        tenant,
        source_id=page.source_id,
        path="a.md",
        content_hash=page.content_hash,
        model_id="wide-1320",
        chunks=[chunk],
    )

    assert index.publish(tenant, page=page, model_id="wide-1320").chunks == 1


def test_a_chunk_that_no_index_takes_is_refused(tenant: TenantFacts) -> None:
    chunk = replace(make_chunks(["one"])[0], text="x" * 100_001)

    with pytest.raises(index.ChunkTooLong, match="100000"):
        index.stage(
            tenant, source_id=make_source(tenant).id, path="a", content_hash="1", model_id=MODEL, chunks=[chunk]
        )


def test_the_longest_chunk_of_different_words_is_indexed(tenant: TenantFacts) -> None:
    words = " ".join(f"w{number:05x}" for number in range(14_200))

    assert make_page(tenant, "a.md", [words[:100_000]]).chunks == 1


def test_two_pages_whose_paths_make_one_slug(tenant: TenantFacts) -> None:
    make_page(tenant, "docs/a.md", ["one"])
    make_page(tenant, "docs/a.md", ["two"], source="wiki")
    make_page(tenant, "docs_a.md", ["three"], source="wiki")

    with tenant_scope(tenant):
        slugs = list(Page.objects.order_by("id").values_list("slug", flat=True))
    assert slugs == ["docs-a-md", "docs-a-md-wiki", "docs-a-md-wiki-2"]


@pytest.mark.parametrize(
    ("path", "slug"), [("docs/Guía de uso.md", "docs-guía-de-uso-md"), ("…/", "page"), ("База знаний", "база-знаний")]
)
def test_slugs(path: str, slug: str) -> None:
    assert slug_of(path) == slug


def test_the_same_slug_in_two_tenants(tenant: TenantFacts, rival: TenantFacts) -> None:
    make_page(tenant, "a.md", ["one"])
    make_page(rival, "a.md", ["one"])

    with tenant_scope(rival):
        assert Page.objects.get().slug == "a-md"


def test_flags_of_a_request_and_by_hand(tenant: TenantFacts) -> None:
    done = make_page(tenant, "a.md", ["one"], flags={"app": "racks", "source_type": "doc"})

    changed = index.set_flags(tenant, page_ids=[done.page_id], by_hand=True, user_facing=True, app="boats")
    make_page(tenant, "a.md", ["two"], flags={"app": "racks", "user_facing": False})

    with tenant_scope(tenant):
        page = Page.objects.get()
    assert changed == 1
    assert (page.app, page.user_facing, page.source_type) == ("boats", True, "")
    assert page.hand_flags == ["app", "user_facing"]


def test_flags_not_by_hand_leave_those_by_hand(tenant: TenantFacts) -> None:
    done = make_page(tenant, "a.md", ["one"])
    index.set_flags(tenant, page_ids=[done.page_id], by_hand=True, user_facing=False)

    assert index.set_flags(tenant, page_ids=[done.page_id], by_hand=False, user_facing=True) == 0


def test_a_value_confirmed_by_hand_is_kept(tenant: TenantFacts) -> None:
    done = make_page(tenant, "a.md", ["one"])
    before = version(tenant)

    assert index.set_flags(tenant, page_ids=[done.page_id], by_hand=True, app="") == 0

    make_page(tenant, "a.md", ["one"], flags={"app": "racks"})
    with tenant_scope(tenant):
        assert Page.objects.get().app == ""
    assert version(tenant) == before


def test_an_unknown_flag_is_refused(tenant: TenantFacts) -> None:
    with pytest.raises(index.UnknownFlag, match="colour"):
        index.set_flags(tenant, page_ids=[1], by_hand=True, colour="red")


def test_flags_move_the_version_once(tenant: TenantFacts) -> None:
    done = make_page(tenant, "a.md", ["one"])
    before = version(tenant)

    index.set_flags(tenant, page_ids=[done.page_id], by_hand=True, app="racks")
    index.set_flags(tenant, page_ids=[done.page_id], by_hand=True, app="racks")

    assert version(tenant) == before + 1


def test_a_rivals_pages_are_neither_flagged_nor_deleted(tenant: TenantFacts, rival: TenantFacts) -> None:
    done = make_page(tenant, "a.md", ["one"])

    assert index.set_flags(rival, page_ids=[done.page_id], by_hand=True, app="racks") == 0
    assert index.delete_pages(rival, page_ids=[done.page_id]) == 0
    assert texts(tenant, "a.md") == ["one"]


def test_lexemes_follow_the_pages_language(tenant: TenantFacts) -> None:
    make_page(tenant, "a.md", ["файлы проекта"], language="ru")

    with tenant_scope(tenant):
        assert set(Lexeme.objects.values_list("lexeme", flat=True)) == {"файл", "проект"}
        assert Corpus.objects.get().languages == {"russian": 1}


def test_another_language_by_hand_makes_other_lexemes(tenant: TenantFacts) -> None:
    done = make_page(tenant, "a.md", ["файлы проекта"], language="en")

    assert index.set_flags(tenant, page_ids=[done.page_id], by_hand=True, language="ru") == 1

    with tenant_scope(tenant):
        assert "файл" in Lexeme.objects.values_list("lexeme", flat=True)
        assert Corpus.objects.get().languages == {"russian": 1}
        assert (Page.objects.get().language, Page.objects.get().hand_flags) == ("ru", ["language"])
    check_counts(tenant)
    make_page(tenant, "a.md", ["файлы проекта тут"], language="en")
    with tenant_scope(tenant):
        assert Page.objects.get().language == "ru"


def test_the_tenants_language_is_for_texts_that_do_not_say() -> None:
    tenant = make_tenant(language="es")
    make_page(tenant, "a.md", ["las instalaciones"])

    with tenant_scope(tenant):
        assert Page.objects.get().language == "es"


def test_a_new_title_needs_no_chunks(tenant: TenantFacts) -> None:
    make_page(tenant, "a.md", ["one"])

    done = index.publish(tenant, page=make_fields(tenant, "a.md", ["one"], title="Guide"), model_id=MODEL)

    assert done.changed
    with tenant_scope(tenant):
        assert Page.objects.get().title == "Guide"


def test_deleting_pages(tenant: TenantFacts) -> None:
    first = make_page(tenant, "a.md", ["one", "two shared"])
    make_page(tenant, "b.md", ["three shared"])

    assert index.delete_pages(tenant, page_ids=[first.page_id, 12345]) == 2

    assert stats(tenant).chunks == 1
    assert texts(tenant, "b.md") == ["three shared"]
    check_counts(tenant)
    assert index.delete_pages(tenant, page_ids=[first.page_id]) == 0


def test_what_was_staged_and_left_is_cleared(tenant: TenantFacts) -> None:
    source = make_source(tenant)
    index.stage(tenant, source_id=source.id, path="a", content_hash="1", model_id=MODEL, chunks=make_chunks(["one"]))

    assert index.clear_staged(tenant, older_than=timedelta(hours=1)) == 0
    assert index.clear_staged(tenant, older_than=timedelta(0)) == 1


def test_the_average_length_follows_a_small_corpus(tenant: TenantFacts) -> None:
    make_page(tenant, "a.md", ["one two three"])
    make_page(tenant, "b.md", [" ".join(f"word{number}" for number in range(60))])

    with tenant_scope(tenant):
        corpus = Corpus.objects.get()
    assert corpus.average_length == pytest.approx(corpus.tokens / corpus.chunks, rel=0.1)


def test_the_database_refuses_a_chunk_of_a_rivals_page(tenant: TenantFacts, rival: TenantFacts) -> None:
    page_id = make_page(tenant, "a.md", ["one"]).page_id

    with pytest.raises(IntegrityError), tenant_scope(rival):
        Chunk.objects.create(tenant_id=rival.id, page_id=page_id, ord=0, text="x", first_line=1, last_line=1)


def test_the_database_refuses_lines_out_of_order(tenant: TenantFacts) -> None:
    page_id = make_page(tenant, "a.md", ["one"]).page_id

    with pytest.raises(IntegrityError, match="chunk_lines_in_order"), tenant_scope(tenant), transaction.atomic():
        Chunk.objects.create(tenant_id=tenant.id, page_id=page_id, ord=9, text="x", first_line=3, last_line=2)


@given(
    versions=st.lists(
        st.lists(st.sampled_from(["red fox", "blue fox", "green hen", "red hen"]), max_size=5), max_size=5
    )
)
@settings(max_examples=12, deadline=None)
def test_the_counts_are_those_of_the_chunks_after_any_changes(versions: list[list[str]]) -> None:
    tenant = make_tenant()
    make_page(tenant, "other.md", ["grey fox"])

    for texts_now in versions:
        make_page(tenant, "a.md", texts_now)
        assert texts(tenant, "a.md") == texts_now

    check_counts(tenant)


def check_counts(tenant: TenantFacts) -> None:
    """Assert that everything counted is what counting the chunks anew gives."""
    with tenant_scope(tenant), connection.cursor() as cursor:
        cursor.execute(
            "SELECT word, ndoc FROM ts_stat($$SELECT tsv FROM knowledge_chunkterms$$) WHERE word NOT LIKE '~%'"
        )
        assert Counter(dict(Lexeme.objects.values_list("lexeme", "df"))) == Counter(dict(cursor.fetchall()))
        corpus, chunks = Corpus.objects.get(), Chunk.objects.count()
        assert corpus.chunks == chunks == ChunkTerms.objects.count() == sum(corpus.languages.values())
        assert corpus.tokens == sum(ChunkTerms.objects.values_list("length", flat=True))
        vectors = [np.asarray(row.embedding) for row in Embedding.objects.filter(model__name=current_spec().id)]
        found = EmbeddingSet.objects.get(model__name=current_spec().id)
        assert found.count == len(vectors) == chunks
        total = np.sum(vectors, axis=0) if vectors else np.zeros(384)
        assert np.allclose(np.asarray(found.embedding_sum), total, atol=1e-3)
        cursor.execute(
            "SELECT count(*) FROM knowledge_chunkterms"
            " WHERE tsv @@ ('''' || kb_tenant_lexeme(tenant_id) || '''')::tsquery"
        )
        assert cursor.fetchone() == (chunks,)


def test_a_published_page_is_found(tenant: TenantFacts) -> None:
    make_page(tenant, "a.md", ["install the widget with a screwdriver"])

    assert search(tenant, "which screwdriver installs widgets").hits[0].path == "a.md"
