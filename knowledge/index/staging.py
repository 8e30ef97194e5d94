"""Finished chunks wait in a staging table until their page is whole."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import numpy as np
from django.utils import timezone
from numpy.typing import NDArray
from pgvector import HalfVector

from knowledge.models import Chunk, EmbeddingModel, StagedChunk
from tenants.scope import HasTenantId, tenant_scope

LONGEST_CHUNK = 100_000
"""Characters. PostgreSQL's tsvector ends at 1 MB and a sparse vector at 16,000 lexemes."""
PER_COMMIT = 50
CONFLICT = ("tenant", "source", "path", "content_hash", "model", "ord")
FIELDS = ("text", "prefix", "heading", "first_line", "last_line", "text_hash", "embedding")


class BadVector(Exception):
    """An embedding is not a unit vector of its model's size."""


class ChunkTooLong(Exception):
    """A chunk is longer than the index takes; cut the text into smaller chunks."""


@dataclass(frozen=True, slots=True)
class ReadyChunk:
    """A chunk that only has to be stored.

    ord counts the page's chunks from 0. prefix is indexed with the text but not shown. Lines are 1-based,
    inclusive. embedding is of unit length, float32 [dimensions]; None takes the vector of the live chunk
    with the same prefix and text (see live_hashes).
    """

    ord: int
    text: str
    prefix: str
    heading: tuple[str, ...]
    first_line: int
    last_line: int
    embedding: NDArray[np.float32] | None


def indexed_text(prefix: str, text: str) -> str:
    """Return what of a chunk is embedded and indexed: the prefix once, then the text."""
    return f"{prefix}\n{text}" if prefix else text


def text_hash(prefix: str, text: str) -> str:
    """Return the SHA-256 (hexadecimal) by which equal chunks are known."""
    return hashlib.sha256(indexed_text(prefix, text).encode()).hexdigest()


def stage(
    tenant: HasTenantId,
    *,
    source_id: int,
    path: str,
    content_hash: str,
    model_id: str,
    chunks: Sequence[ReadyChunk],
) -> None:
    """Store finished chunks of one content of a page, in commits of 50; nothing becomes visible.

    Staging the same ord again replaces it. Raises BadVector and ChunkTooLong before anything is stored.
    """
    for chunk in chunks:
        _check(chunk)
    model = model_row(model_id, dimensions=_dimensions(chunks))
    for some in batched_chunks(chunks):
        with tenant_scope(tenant) as tenant_id:
            rows = [
                StagedChunk(
                    tenant_id=tenant_id,
                    source_id=source_id,
                    path=path,
                    content_hash=content_hash,
                    model=model,
                    **_fields(chunk),
                )
                for chunk in some
            ]
            StagedChunk.objects.bulk_create(rows, update_conflicts=True, unique_fields=CONFLICT, update_fields=FIELDS)


def batched_chunks(chunks: Sequence[ReadyChunk]) -> list[Sequence[ReadyChunk]]:
    """Return the chunks in pieces of one commit each."""
    return [chunks[start : start + PER_COMMIT] for start in range(0, len(chunks), PER_COMMIT)]


def staged(tenant: HasTenantId, *, source_id: int, path: str, content_hash: str, model_id: str) -> frozenset[int]:
    """Return the ords of this content that are staged already: an interrupted ingest goes on after them."""
    with tenant_scope(tenant) as tenant_id:
        rows = StagedChunk.objects.filter(
            tenant_id=tenant_id,
            source_id=source_id,
            path=path,
            content_hash=content_hash,
            model__name=model_id,
        )
        return frozenset(rows.values_list("ord", flat=True))


def live_hashes(tenant: HasTenantId, *, source_id: int, path: str, model_id: str) -> frozenset[str]:
    """Return the text hashes of a page's live chunks that have a vector of this model.

    A chunk with such a hash need not be embedded again: stage it with embedding None.
    """
    with tenant_scope(tenant) as tenant_id:
        chunks = Chunk.objects.filter(tenant_id=tenant_id, page__source_id=source_id, page__path=path)
        model = EmbeddingModel.objects.filter(name=model_id).first()
        if model is None:
            return frozenset()
        found = chunks.extra(
            where=[
                "EXISTS (SELECT FROM knowledge_embedding AS e WHERE e.tenant_id = knowledge_chunk.tenant_id"
                " AND e.chunk_id = knowledge_chunk.id AND e.model_id = %s)"
            ],
            params=[model.pk],
        )
        return frozenset(found.values_list("text_hash", flat=True))


def clear_staged(tenant: HasTenantId, *, older_than: timedelta) -> int:
    """Delete what was staged longer ago and never published; returns the number of chunks."""
    with tenant_scope(tenant) as tenant_id:
        old = StagedChunk.objects.filter(tenant_id=tenant_id, created_at__lt=timezone.now() - older_than)
        return old.delete()[0]


def model_row(name: str, *, dimensions: int | None) -> EmbeddingModel:
    """Return the row of an embedding model, made at its first use.

    Raises BadVector when it is known with another size, or unknown and no vector tells its size.
    """
    known = EmbeddingModel.objects.filter(name=name).first()
    if known is None:
        if dimensions is None:
            raise BadVector(f"nothing was ever embedded with {name}: the chunks need vectors")
        known, _ = EmbeddingModel.objects.get_or_create(name=name, defaults={"dimensions": dimensions})
    if dimensions not in (None, known.dimensions):
        raise BadVector(f"{name} makes vectors of {known.dimensions} numbers, not {dimensions}")
    return known


def checked_vector(vector: NDArray[np.float32]) -> HalfVector:
    """Return the vector as it is stored; raises BadVector unless it is finite and of unit length."""
    length = float(np.linalg.norm(vector))
    if vector.ndim != 1 or not abs(length - 1) < 0.01:
        raise BadVector(f"a vector has the length {length:.3f}; vectors must have the length 1")
    return HalfVector(vector)


def _check(chunk: ReadyChunk) -> None:
    if len(chunk.text) > LONGEST_CHUNK:
        raise ChunkTooLong(f"chunk {chunk.ord} has {len(chunk.text)} characters; {LONGEST_CHUNK} are allowed")
    if chunk.embedding is not None:
        checked_vector(chunk.embedding)


def _dimensions(chunks: Sequence[ReadyChunk]) -> int | None:
    sizes = {chunk.embedding.shape[0] for chunk in chunks if chunk.embedding is not None}
    if len(sizes) > 1:
        raise BadVector(f"vectors of different sizes in one page: {sorted(sizes)}")
    return sizes.pop() if sizes else None


def _fields(chunk: ReadyChunk) -> dict[str, Any]:
    return {
        "ord": chunk.ord,
        "text": chunk.text,
        "prefix": chunk.prefix,
        "heading": list(chunk.heading),
        "first_line": chunk.first_line,
        "last_line": chunk.last_line,
        "text_hash": text_hash(chunk.prefix, chunk.text),
        "embedding": None if chunk.embedding is None else checked_vector(chunk.embedding),
    }
