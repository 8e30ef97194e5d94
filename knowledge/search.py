"""Finding the chunks that answer a question."""

from __future__ import annotations

import json
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from time import perf_counter
from typing import Any, Protocol
from uuid import UUID

import numpy as np
from django.db import connection
from django.db.models import Count, F, Value
from django.db.models.functions import Coalesce, NullIf
from numpy.typing import NDArray

from knowledge.embedding import EmbeddingFailed, ModelSpec, current_spec, embed_query
from knowledge.models import Corpus, EmbeddingSet, Page, Source
from tenants.filters import ALL, KnowledgeFilter
from tenants.scope import HasTenantId, tenant_scope

logger = logging.getLogger(__name__)

Vector = NDArray[np.float32] | Sequence[float]

ENGINE = "postgres-hybrid"
MOST_HITS = 64
FOREIGN_WEIGHT = 0.2
"""Most that vectors weigh where the model does not know the tenant's language (docs/retrieval.md)."""


class SearchedTenant(Protocol):
    """What a search asks of a tenant."""

    @property
    def id(self) -> UUID: ...
    @property
    def language(self) -> str: ...
    @property
    def product(self) -> str: ...
    @property
    def unmarked_pages(self) -> str: ...
    @property
    def dense_weight(self) -> float: ...


@dataclass(frozen=True, slots=True)
class Hit:
    """A chunk that was found.

    score in [0, 1] orders the hits of one question; evidence in [0, 1] means the same for every question,
    model and tenant, and is what gates use. ranks and scores tell the lanes apart ("text", "vector"): the
    place among a lane's first 100, the normalised part; None where a lane has no value. content_hash
    changes with the chunk's text or prefix.
    """

    chunk_id: str
    path: str
    text: str
    prefix: str
    score: float
    evidence: float
    heading: tuple[str, ...]
    lines: tuple[int, int]
    page_id: int
    slug: str
    title: str
    url: str | None
    source: str
    source_type: str
    ranks: dict[str, int | None]
    scores: dict[str, float | None]
    content_hash: str


@dataclass(frozen=True, slots=True)
class Found:
    """What a search found; evidence is the best among all candidates, chunks the tenant's number of them."""

    hits: tuple[Hit, ...]
    evidence: float
    corpus_version: int
    chunks: int
    degraded: tuple[str, ...]
    took_ms: float


@dataclass(frozen=True, slots=True)
class Stats:
    """What a tenant's corpus holds; pages are those that can be retrieved."""

    chunks: int
    pages: int
    sources: int
    embedding_model: str
    corpus_version: int
    last_ingest_at: datetime | None
    by_source_type: dict[str, int]


def search(
    tenant: SearchedTenant,
    query: str,
    *,
    filter: KnowledgeFilter = ALL,
    top_k: int = 8,
    min_evidence: float = 0.0,
    embed_timeout: float | None = None,
    statement_timeout_ms: int | None = None,
) -> Found:
    """Return the best chunks for a question, in one call of the database.

    Filters act before ranking: top_k hits (64 at most) come back whenever that many chunks match. Without
    a vector within embed_timeout seconds, or without vectors of the configured model, the text decides
    alone and degraded says ("vector",). Raises django.db.OperationalError when statement_timeout_ms is
    exceeded.
    """
    began = perf_counter()
    vector, spec = _question_vector(tenant, query, timeout=embed_timeout)
    return search_with(
        tenant,
        query,
        vector=vector,
        spec=spec,
        filter=filter,
        top_k=top_k,
        min_evidence=min_evidence,
        statement_timeout_ms=statement_timeout_ms,
        began=began,
    )


def search_with(
    tenant: SearchedTenant,
    query: str,
    *,
    vector: Vector | None,
    spec: ModelSpec | None,
    filter: KnowledgeFilter = ALL,
    top_k: int = 8,
    min_evidence: float = 0.0,
    statement_timeout_ms: int | None = None,
    began: float | None = None,
) -> Found:
    """Search as search does, with the question's vector and its model given (None: by text alone)."""
    began = perf_counter() if began is None else began
    arguments = [
        _storable(query),
        None if vector is None else _vector_text(vector),
        spec.id if spec else "",
        spec.background_cosine if spec else 0.0,
        _dense_weight(tenant, spec),
        min(max(top_k, 1), MOST_HITS),
        min_evidence,
        list(filter.sources),
        list(filter.source_types),
        list(filter.products),
        list(filter.apps),
        filter.path_prefix,
        filter.user_facing,
        tenant.unmarked_pages == "user-facing",
        tenant.product,
    ]
    rows = _call(tenant, arguments, statement_timeout_ms=statement_timeout_ms)
    version, chunks, evidence, vector_used = rows[0][:4]
    return Found(
        hits=tuple(_hit(row[4:]) for row in rows if row[4] is not None),
        evidence=min(1.0, evidence),
        corpus_version=version,
        chunks=chunks,
        degraded=() if vector_used or not chunks else ("vector",),
        took_ms=(perf_counter() - began) * 1000,
    )


def stats(tenant: HasTenantId) -> Stats:
    """Return what the tenant's corpus holds."""
    with tenant_scope(tenant) as tenant_id:
        corpus = Corpus.objects.filter(tenant_id=tenant_id).first() or Corpus()
        pages = Page.objects.filter(tenant_id=tenant_id).retrievable()
        kind = Coalesce(NullIf("source_type", Value("")), F("source__source_type"))
        kinds = pages.values_list(kind).annotate(number=Count("id")).order_by()
        live = EmbeddingSet.objects.filter(tenant_id=tenant_id, state=EmbeddingSet.State.LIVE)
        return Stats(
            chunks=corpus.chunks,
            pages=pages.count(),
            sources=Source.objects.filter(tenant_id=tenant_id).count(),
            embedding_model=live.values_list("model__name", flat=True).first() or current_spec().id,
            corpus_version=corpus.version,
            last_ingest_at=corpus.last_ingest_at,
            by_source_type=dict(kinds),
        )


def _question_vector(
    tenant: HasTenantId, query: str, *, timeout: float | None
) -> tuple[Vector | None, ModelSpec | None]:
    try:
        vector = embed_query(tenant.id, query, timeout=timeout)
        return vector, current_spec()
    except EmbeddingFailed as error:
        logger.warning("searching by text alone: %s", error)
        return None, None


def _dense_weight(tenant: SearchedTenant, spec: ModelSpec | None) -> float:
    if spec is not None and spec.languages is not None and tenant.language not in spec.languages:
        return min(tenant.dense_weight, FOREIGN_WEIGHT)
    return tenant.dense_weight


def _storable(text: str) -> str:
    """Return the text as PostgreSQL takes it: NULs and lone surrogates replaced."""
    return text.replace("\0", "\ufffd").encode("utf-8", "replace").decode()


def _vector_text(vector: Vector) -> str:
    return json.dumps([float(number) for number in vector])


def _call(tenant: HasTenantId, arguments: list[Any], *, statement_timeout_ms: int | None) -> list[tuple[Any, ...]]:
    places = ", ".join(["%s"] * len(arguments))
    with tenant_scope(tenant), connection.cursor() as cursor:
        if statement_timeout_ms is not None:
            cursor.execute(f"SET LOCAL statement_timeout TO {int(statement_timeout_ms)}")
        cursor.execute(f"SELECT * FROM kb_search({places})", arguments)  # noqa: S608 - places only
        rows: list[tuple[Any, ...]] = cursor.fetchall()
        return rows


def _hit(row: tuple[Any, ...]) -> Hit:
    (
        chunk_id, path, text, prefix, score, evidence, heading, first_line, last_line, page_id, slug, title,
        url, source, source_type, text_rank, vector_rank, text_score, vector_score, content_hash,
    ) = row  # fmt: skip
    return Hit(
        chunk_id=str(chunk_id),
        path=path,
        text=text,
        prefix=prefix,
        score=score,
        evidence=evidence,
        heading=tuple(heading),
        lines=(first_line, last_line),
        page_id=page_id,
        slug=slug,
        title=title,
        url=url or None,
        source=source,
        source_type=source_type,
        ranks={"text": text_rank, "vector": vector_rank},
        scores={"text": text_score, "vector": vector_score},
        content_hash=content_hash,
    )
