"""The text lane's scores are BM25's."""

from __future__ import annotations

import random

import bm25s
import numpy as np
import pytest
from django.db import connection

from knowledge.index import refreeze
from tenants.facts import TenantFacts
from tenants.scope import tenant_scope
from tests.knowledge.corpus import make_page

WORDS = "heron badger swift river sett air fish alloc_map freeList config.yaml the installs installing".split()


def make_corpus(tenant: TenantFacts) -> None:
    """Make 60 chunks of random words, with their weights made from the true average."""
    chance = random.Random(7)
    for page in range(6):
        texts = [" ".join(chance.choices(WORDS, k=chance.randint(2, 40))) for _ in range(10)]
        make_page(tenant, f"{page}.md", texts, language="en")
    refreeze(tenant, drift=0)


def lexemes_of_chunks() -> dict[int, list[str]]:
    """Return every chunk's lexemes, repetitions included."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT t.chunk_id, array_agg(e.lexeme) FROM knowledge_chunkterms t, unnest(t.tsv) e, unnest(e.positions) p"
            " WHERE NOT e.lexeme ^@ '~' GROUP BY 1 ORDER BY 1"
        )
        return dict(cursor.fetchall())


def our_scores(tenant: TenantFacts, query: str) -> dict[int, float]:
    """Return every chunk's score without the prior for small corpora."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT t.chunk_id, -(t.bm <#> q.weights) FROM knowledge_chunkterms t,"
            " kb_question(%s, %s, '{english}', (SELECT chunks FROM knowledge_corpus), 0) q",
            [tenant.id, query],
        )
        return dict(cursor.fetchall())


@pytest.mark.parametrize(
    "query", ["heron", "which badger installed the alloc_map", "freeList air", "config.yaml fish fish"]
)
def test_it_works(tenant: TenantFacts, query: str) -> None:
    make_corpus(tenant)

    with tenant_scope(tenant), connection.cursor() as cursor:
        corpus = lexemes_of_chunks()
        cursor.execute("SELECT tsvector_to_array(kb_lexemes('english', %s))", [query])
        asked = cursor.fetchone()[0]
        ours = our_scores(tenant, query)

    reference = bm25s.BM25(method="lucene", k1=1.2, b=0.75)
    reference.index(list(corpus.values()), show_progress=False)
    known = [lexeme for lexeme in asked if lexeme in reference.vocab_dict]
    theirs = reference.get_scores(known) * 2.2

    assert np.allclose([ours[chunk_id] for chunk_id in corpus], theirs, atol=1e-3)
    assert max(theirs) > 0


def test_no_score_exceeds_the_ceiling(tenant: TenantFacts) -> None:
    make_corpus(tenant)

    with tenant_scope(tenant), connection.cursor() as cursor:
        cursor.execute("SELECT ceiling FROM kb_question(%s, 'heron badger', '{english}', 60, 0)", [tenant.id])
        ceiling = cursor.fetchone()[0]
        scores = our_scores(tenant, "heron badger")

    assert 0 < max(scores.values()) < ceiling


def test_the_rarest_lexemes_name_the_candidates(tenant: TenantFacts) -> None:
    make_page(tenant, "a.md", [f"heron badger river lake word{number}" for number in range(20)], language="en")

    with tenant_scope(tenant), connection.cursor() as cursor:
        cursor.execute(
            "SELECT wanted::text FROM kb_question(%s, %s, '{english}', 20, 50)",
            [tenant.id, "heron badger river lake word3 word4 krone"],
        )
        wanted = cursor.fetchone()[0]

    assert wanted == "'word3' | 'word4' | 'badger'"
