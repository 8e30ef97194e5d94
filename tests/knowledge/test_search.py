"""Finding chunks: ranking, evidence, filters, and what comes back when there is little to find."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from django.db import OperationalError
from hypothesis import given, settings
from hypothesis import strategies as st

from knowledge import index
from knowledge.embedding import current_spec, provider
from knowledge.models import Source
from knowledge.search import Found, search, search_with, stats
from tenants.facts import TenantFacts
from tenants.filters import KnowledgeFilter
from tenants.scope import tenant_scope
from tests.knowledge.corpus import make_page, make_source
from tests.make import make_tenant

ANIMALS = ["the heron stands in the river", "the badger digs a sett", "the swift sleeps in the air"]
HOSTILE = [
    "'",
    "''",
    '"',
    "\\",
    "\\'",
    "'; DROP TABLE knowledge_chunk; --",
    "a & b | !c <-> d:*",
    "(((",
    ":*",
    "%s %(x)s %%",
    "$1 $$ $body$",
    "{1:2}/3",
    "\0",
    "\ud800",
    "~t",
    "\u202e\u200b",
    "heron\x01\x1f",
    "x" * 12_000,
    "a'b " * 3_000,
    "٠١٢ हिन्दी 漢字 🦆",
]


def by_text(tenant: TenantFacts, query: str, **options: Any) -> Found:
    """Search without a vector."""
    return search_with(tenant, query, vector=None, spec=None, **options)


def paths(found: Found) -> list[str]:
    """Return the paths of the hits in order."""
    return [hit.path for hit in found.hits]


def make_zoo(tenant: TenantFacts, **fields: Any) -> None:
    """Make one page an animal."""
    for number, text in enumerate(ANIMALS):
        make_page(tenant, f"animals/{number}.md", [text], prefix=f"animals/{number}.md", **fields)


def test_it_works(tenant: TenantFacts) -> None:
    make_zoo(tenant)

    found = search(tenant, "where does the heron stand")

    hit = found.hits[0]
    assert (hit.path, hit.text, hit.slug) == ("animals/0.md", ANIMALS[0], "animals-0-md")
    assert hit.prefix == "animals/0.md"
    assert hit.heading == ("Guide",)
    assert hit.lines == (1, 1)
    assert (hit.source, hit.url) == ("docs", None)
    assert hit.ranks == {"text": 1, "vector": 1}
    assert found.evidence == hit.evidence > 0.25
    assert (found.chunks, found.degraded) == (3, ())


def test_hits_come_in_the_order_of_their_scores(tenant: TenantFacts) -> None:
    make_zoo(tenant)

    found = search(tenant, "the badger in the river")

    scores = [hit.score for hit in found.hits]
    assert scores == sorted(scores, reverse=True)
    assert all(
        0 <= value <= 1 for hit in found.hits for value in (hit.score, hit.evidence, *hit.scores.values()) if value
    )


def test_an_empty_corpus(tenant: TenantFacts) -> None:
    found = search(tenant, "anything")

    assert (found.hits, found.evidence, found.corpus_version, found.chunks) == ((), 0.0, 0, 0)
    assert found.degraded == ()


def test_every_chunk_comes_when_asked_for_more(tenant: TenantFacts) -> None:
    make_zoo(tenant)

    assert len(search(tenant, "heron", top_k=64).hits) == 3


def test_chunks_without_a_common_word_fill_up_a_search_by_text(tenant: TenantFacts) -> None:
    make_zoo(tenant)

    found = by_text(tenant, "heron", top_k=3)

    assert len(found.hits) == 3
    assert found.hits[0].path == "animals/0.md"
    assert found.hits[2].ranks == {"text": None, "vector": None}
    assert found.hits[2].scores["vector"] is None
    assert found.degraded == ("vector",)


def test_a_question_of_stop_words_finds_something(tenant: TenantFacts) -> None:
    make_zoo(tenant)

    assert len(by_text(tenant, "is it the", top_k=2).hits) == 2


def test_top_k_is_kept_within_its_bounds(tenant: TenantFacts) -> None:
    make_page(tenant, "a.md", [f"heron number {number}" for number in range(70)])

    assert len(search(tenant, "heron", top_k=1_000).hits) == 64
    assert len(search(tenant, "heron", top_k=0).hits) == 1


def test_no_evidence_for_a_foreign_question(tenant: TenantFacts) -> None:
    make_zoo(tenant)

    assert search(tenant, "exchange rates of the Norwegian krone").evidence < 0.25


def test_evidence_in_a_corpus_of_one_chunk(tenant: TenantFacts) -> None:
    make_page(tenant, "a.md", ["the heron stands in the river and waits for fish"])

    assert search(tenant, "what does the heron wait for").evidence > 0.25
    assert search(tenant, "exchange rates of the krone").evidence < 0.25


def test_min_evidence_drops_hits(tenant: TenantFacts) -> None:
    make_zoo(tenant)

    found = search(tenant, "heron in the river", min_evidence=0.25)

    assert paths(found) == ["animals/0.md"]
    assert search(tenant, "heron in the river", min_evidence=1.0).hits == ()
    assert search(tenant, "heron in the river", min_evidence=1.0).evidence == found.evidence


def test_a_word_that_is_everywhere_weighs_little(tenant: TenantFacts) -> None:
    make_page(tenant, "a.md", ["heron heron heron river", "heron lake", "heron pond", "heron sea"])

    assert by_text(tenant, "heron lake").hits[0].text == "heron lake"


def test_names_in_code_are_found_however_they_are_written(tenant: TenantFacts) -> None:
    make_page(tenant, "a.py", ["def alloc_map(size): ...", "def free_list(size): ...", "map of the city"])

    assert by_text(tenant, "AllocMap").hits[0].text == "def alloc_map(size): ..."


def test_the_prefix_is_found_and_not_shown(tenant: TenantFacts) -> None:
    make_page(tenant, "x.md", ["stands in the river"], prefix="birds/heron.md")
    make_page(tenant, "y.md", ["stands in the river"], prefix="cars/taxi.md")

    hit = by_text(tenant, "heron").hits[0]

    assert (hit.path, hit.text, hit.prefix) == ("x.md", "stands in the river", "birds/heron.md")


def test_chunks_of_a_document_help_each_other(tenant: TenantFacts) -> None:
    make_page(tenant, "birds.md", ["heron facts", "heron food", "heron nests"])
    make_page(tenant, "mix.md", ["heron facts", "badger food", "swift nests"])

    found = by_text(tenant, "heron facts", top_k=2)

    assert found.hits[0].path == "birds.md"
    assert found.hits[0].score > found.hits[1].score


def test_russian_and_spanish_and_english_in_one_tenant(tenant: TenantFacts) -> None:
    make_page(tenant, "ru.md", ["файлы проекта индексируются"], language="ru")
    make_page(tenant, "es.md", ["los ficheros del proyecto se indexan"], language="es")
    make_page(tenant, "en.md", ["the files of the project are indexed"], language="en")

    assert by_text(tenant, "индексация файлов").hits[0].path == "ru.md"
    assert by_text(tenant, "indexar un fichero").hits[0].path == "es.md"
    assert by_text(tenant, "indexing a file").hits[0].path == "en.md"


def test_words_of_other_languages_do_not_lower_evidence(tenant: TenantFacts) -> None:
    other = make_tenant("one-language")
    for each, languages in ((tenant, ("ru", "es")), (other, ("en", "en"))):
        make_page(each, "en.md", ["the files of the project are indexed", "nothing else is indexed"], language="en")
        make_page(each, "ru.md", ["дерево растёт"], language=languages[0])
        make_page(each, "es.md", ["árbol crece"], language=languages[1])

    mixed, alone = by_text(tenant, "which files are indexed"), by_text(other, "which files are indexed")

    assert mixed.evidence == pytest.approx(alone.evidence, abs=0.02)


def test_by_source(tenant: TenantFacts) -> None:
    make_page(tenant, "a.md", ["heron"], source="wiki")
    make_page(tenant, "b.md", ["heron"], source="git")

    found = search(tenant, "heron", filter=KnowledgeFilter(sources=("git", "other")))

    assert [(hit.path, hit.source) for hit in found.hits] == [("b.md", "git")]


def test_by_flags_of_the_page_or_else_of_its_source(tenant: TenantFacts) -> None:
    make_source(tenant, "docs", source_type="doc", app="racks", product="boats")
    make_page(tenant, "a.md", ["heron"])
    make_page(tenant, "b.md", ["heron"], flags={"source_type": "faq", "app": "gear", "product": "kites"})

    assert paths(search(tenant, "heron", filter=KnowledgeFilter(source_types=("doc",)))) == ["a.md"]
    assert paths(search(tenant, "heron", filter=KnowledgeFilter(apps=("gear",)))) == ["b.md"]
    assert paths(search(tenant, "heron", filter=KnowledgeFilter(products=("boats",)))) == ["a.md"]
    assert search(tenant, "heron", filter=KnowledgeFilter(apps=("gear",), products=("boats",))).hits == ()
    assert {hit.source_type for hit in search(tenant, "heron").hits} == {"doc", "faq"}


def test_by_path_prefix(tenant: TenantFacts) -> None:
    make_page(tenant, "docs/a.md", ["heron"])
    make_page(tenant, "docs_old/b.md", ["heron"])
    make_page(tenant, "Docs/c.md", ["heron"])

    assert paths(search(tenant, "heron", filter=KnowledgeFilter(path_prefix="docs/"))) == ["docs/a.md"]
    assert search(tenant, "heron", filter=KnowledgeFilter(path_prefix="%")).hits == ()


@pytest.mark.parametrize(
    ("rule", "page", "source", "seen"),
    [
        ("internal", None, None, False),
        ("user-facing", None, None, True),
        ("user-facing", False, None, False),
        ("internal", True, False, True),
        ("internal", None, True, True),
        ("user-facing", None, False, False),
    ],
)
def test_which_pages_are_user_facing(rule: str, page: bool | None, source: bool | None, seen: bool) -> None:
    tenant = make_tenant()
    facts = TenantFacts(id=tenant.id, slug=tenant.slug, unmarked_pages=rule)
    make_source(tenant, "docs", user_facing=source)
    make_page(tenant, "a.md", ["heron"], flags={} if page is None else {"user_facing": page})

    found = search(facts, "heron", filter=KnowledgeFilter(user_facing=True))

    assert bool(found.hits) is seen


def test_user_facing_pages_are_of_the_tenants_product_or_of_none(tenant: TenantFacts) -> None:
    facts = TenantFacts(id=tenant.id, slug=tenant.slug, product="boats")
    for product in ("", "boats", "kites"):
        make_page(tenant, f"{product}.md", ["heron"], flags={"user_facing": True, "product": product})

    shown = search(facts, "heron", filter=KnowledgeFilter(user_facing=True))

    assert sorted(paths(shown)) == [".md", "boats.md"]
    assert len(search(facts, "heron").hits) == 3


def test_filters_act_before_ranking(tenant: TenantFacts) -> None:
    make_page(tenant, "many.md", [f"heron {number}" for number in range(150)])
    make_page(tenant, "few.md", ["badger", "swift"])

    found = search(tenant, "heron", top_k=2, filter=KnowledgeFilter(path_prefix="few"))

    assert paths(found) == ["few.md", "few.md"]


@given(
    wanted=st.integers(1, 64),
    kept=st.sampled_from([KnowledgeFilter(), *(KnowledgeFilter(path_prefix=str(part)) for part in range(4))]),
    words=st.lists(st.sampled_from(["heron", "badger", "swift", "the", "krone", "river-bank"]), max_size=5),
    vector=st.booleans(),
)
@settings(max_examples=60, deadline=None)
def test_never_fewer_hits_than_match(wanted: int, kept: KnowledgeFilter, words: list[str], vector: bool) -> None:
    tenant, sizes = many_pages()
    query = " ".join(words) or "?"
    embedded = provider().embed([query], role="query")[0] if vector else None

    found = search_with(tenant, query, vector=embedded, spec=current_spec(), filter=kept, top_k=wanted)

    matching = sum(size for path, size in sizes.items() if path.startswith(kept.path_prefix))
    assert len(found.hits) == min(wanted, matching)
    assert len({hit.chunk_id for hit in found.hits}) == len(found.hits)
    assert all(hit.path.startswith(kept.path_prefix) for hit in found.hits)


_made: list[tuple[TenantFacts, dict[str, int]]] = []


def many_pages() -> tuple[TenantFacts, dict[str, int]]:
    """Return a tenant with pages of 1, 5, 40 and 150 chunks, made once."""
    if not _made:
        tenant = make_tenant("many")
        sizes = {"0.md": 1, "1.md": 5, "2.md": 40, "3.md": 150}
        for path, size in sizes.items():
            make_page(tenant, path, [f"{ANIMALS[number % 3]} {number}" for number in range(size)])
        _made.append((tenant, sizes))
    return _made[0]


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
def test_any_question_is_only_a_question(tenant: TenantFacts, text: str) -> None:
    make_zoo(tenant)

    found = search(tenant, text, filter=KnowledgeFilter(path_prefix="animals/"))

    assert len(found.hits) == 3


@pytest.mark.parametrize("text", [text for text in HOSTILE if "\0" not in text and "\ud800" not in text])
def test_any_text_can_be_stored_and_filtered_by(tenant: TenantFacts, text: str) -> None:
    make_page(tenant, "a.md", [f"heron {text}"], flags={"app": text[:100]})

    assert search(tenant, text).chunks == 1
    assert paths(search(tenant, "heron", filter=KnowledgeFilter(apps=(text[:100],)))) == ["a.md"]
    assert search(tenant, "heron", filter=KnowledgeFilter(sources=(text,), path_prefix=text[:50])).hits == ()


def test_a_question_cannot_name_another_tenant(tenant: TenantFacts, rival: TenantFacts) -> None:
    make_page(tenant, "a.md", ["heron"])
    make_page(rival, "secret.md", ["heron"])

    for query in (f"~t{rival.id.hex} heron", f"'~t{rival.id.hex}'", str(rival.id)):
        assert paths(search(tenant, query)) == ["a.md"]


def test_without_vectors_of_the_model_the_text_decides(tenant: TenantFacts) -> None:
    make_zoo(tenant)
    spec = current_spec()
    other = type(spec)(id="another-model", dimensions=8, max_tokens=512)

    found = search_with(tenant, "heron", vector=np.eye(1, 8, dtype=np.float32)[0], spec=other)

    assert found.degraded == ("vector",)
    assert found.hits[0].path == "animals/0.md"


def test_a_model_that_does_not_know_the_language_weighs_less() -> None:
    spanish = make_tenant(language="es")
    make_page(spanish, "a.md", ["la garza en el río"])
    spec = type(current_spec())(id=current_spec().id, dimensions=384, max_tokens=512, languages=frozenset({"en"}))
    vector = provider().embed(["garza"], role="query")[0]

    narrow = search_with(spanish, "garza", vector=vector, spec=spec).hits[0]
    wide = search_with(spanish, "garza", vector=vector, spec=current_spec()).hits[0]

    parts = narrow.scores
    assert narrow.score == pytest.approx((0.2 * parts["vector"] + 0.8 * parts["text"]) * 1.5 / 1.5)  # type: ignore[operator]
    assert wide.score == pytest.approx(0.4 * parts["vector"] + 0.6 * parts["text"])  # type: ignore[operator]


def test_a_statement_that_takes_too_long_is_cancelled(tenant: TenantFacts) -> None:
    make_page(tenant, "a.md", [f"heron {number}" for number in range(200)])

    with pytest.raises(OperationalError, match="statement timeout"):
        search(tenant, "heron " * 2_000, statement_timeout_ms=1)


def test_the_version_moves_with_the_corpus(tenant: TenantFacts) -> None:
    make_page(tenant, "a.md", ["heron"])
    before = search(tenant, "heron")

    make_page(tenant, "a.md", ["heron and badger"])

    after = search(tenant, "heron")
    assert after.corpus_version == before.corpus_version + 1
    assert after.hits[0].content_hash != before.hits[0].content_hash


def test_stats(tenant: TenantFacts) -> None:
    make_source(tenant, "docs", source_type="doc")
    make_page(tenant, "a.md", ["one", "two"])
    make_page(tenant, "b.md", ["three"], flags={"source_type": "faq"})
    make_page(tenant, "c.md", [])

    found = stats(tenant)

    assert (found.chunks, found.pages, found.sources) == (3, 2, 1)
    assert found.by_source_type == {"doc": 1, "faq": 1}
    assert found.embedding_model == "hash-384"
    assert found.last_ingest_at is not None


def test_stats_of_an_empty_corpus(tenant: TenantFacts) -> None:
    found = stats(tenant)

    assert (found.chunks, found.pages, found.corpus_version, found.last_ingest_at) == (0, 0, 0, None)


def test_a_source_can_be_marked_later(tenant: TenantFacts) -> None:
    make_page(tenant, "a.md", ["heron"])
    with tenant_scope(tenant):
        Source.objects.update(user_facing=True)

    assert paths(search(tenant, "heron", filter=KnowledgeFilter(user_facing=True))) == ["a.md"]


def test_a_flag_by_hand_is_seen_at_once(tenant: TenantFacts) -> None:
    done = make_page(tenant, "a.md", ["heron"])

    index.set_flags(tenant, page_ids=[done.page_id], by_hand=True, user_facing=True)

    assert paths(search(tenant, "heron", filter=KnowledgeFilter(user_facing=True))) == ["a.md"]
