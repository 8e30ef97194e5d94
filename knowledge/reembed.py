"""Moving a tenant's corpus to another embedding model, with questions answered throughout."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from uuid import UUID

from django.db import connection

from knowledge.embedding import Provider
from knowledge.index.staging import checked_vector, indexed_text, model_row
from knowledge.index.statistics import bump_version, have_corpus, have_set
from knowledge.models import Corpus, EmbeddingModel, EmbeddingSet
from tenants.scope import HasTenantId, tenant_scope

PER_COMMIT = 64
"""Chunks embedded together; what is interrupted has lost that many at most."""
DROPPED_PER_COMMIT = 2_000


@dataclass(frozen=True, slots=True)
class Reembedded:
    """What a move did: the model searched now, those it replaced, and how many chunks were embedded."""

    model: str
    before: tuple[str, ...]
    embedded: int


def reembed(
    tenant: HasTenantId,
    *,
    provider: Provider,
    keep_old: bool = False,
    progress: Callable[[int, int], None] | None = None,
) -> Reembedded:
    """Give every chunk a vector of the provider's model, search by that model, drop the earlier vectors.

    The new set is built beside the old one, which is searched until every chunk has its new vector; then
    both change places in one transaction. Interrupted, it goes on where it was. keep_old leaves the old set
    for web processes that still run the earlier model; drop_old removes it later. progress gets the chunks
    done and the corpus's chunks. Raises EmbeddingFailed.
    """
    model = model_row(provider.spec.id, dimensions=provider.spec.dimensions)
    with tenant_scope(tenant) as tenant_id:
        have_corpus(tenant_id)
        have_set(model)
    embedded = _fill(tenant, model, provider, progress)
    while not (before := _flip(tenant, model)).done:
        embedded += _fill(tenant, model, provider, progress)  # pages published meanwhile
    if not keep_old:
        drop_old(tenant)
    return Reembedded(model=model.name, before=before.names, embedded=embedded)


def drop_old(tenant: HasTenantId) -> tuple[str, ...]:
    """Delete the vectors of every model but the one that is searched; returns the models' names."""
    with tenant_scope(tenant) as tenant_id:
        old = EmbeddingSet.objects.filter(tenant_id=tenant_id).exclude(state=EmbeddingSet.State.LIVE)
        models = [found.model for found in old.select_related("model").order_by("id")]
        old.update(state=EmbeddingSet.State.BUILDING)  # no search begins on it any more
    for model in models:
        while _drop_some(tenant, model):
            pass
    return tuple(model.name for model in models)


@dataclass(frozen=True, slots=True)
class _Flip:
    done: bool
    names: tuple[str, ...] = ()


def _fill(
    tenant: HasTenantId,
    model: EmbeddingModel,
    provider: Provider,
    progress: Callable[[int, int], None] | None,
) -> int:
    number, last = 0, 0
    while some := _missing(tenant, model, after=last):
        vectors = provider.embed([text for _, text in some], role="document")
        ids, last = [chunk_id for chunk_id, _ in some], some[-1][0]
        number += _add(tenant, model, ids, [checked_vector(vector).to_text() for vector in vectors])
        if progress is not None:
            progress(*_done(tenant, model))
    return number


def _missing(tenant: HasTenantId, model: EmbeddingModel, *, after: int) -> Sequence[tuple[int, str]]:
    with tenant_scope(tenant) as tenant_id, connection.cursor() as cursor:
        cursor.execute(
            "SELECT c.id, c.prefix, c.text FROM knowledge_chunk AS c"
            " WHERE c.tenant_id = %s AND c.id > %s AND NOT EXISTS (SELECT FROM knowledge_embedding AS e"
            "  WHERE e.tenant_id = c.tenant_id AND e.chunk_id = c.id AND e.model_id = %s) ORDER BY c.id LIMIT %s",
            [tenant_id, after, model.pk, PER_COMMIT],
        )
        return [(row[0], indexed_text(row[1], row[2])) for row in cursor.fetchall()]


def _add(tenant: HasTenantId, model: EmbeddingModel, chunk_ids: Sequence[int], vectors: Sequence[str]) -> int:
    with tenant_scope(tenant), connection.cursor() as cursor:
        cursor.execute("SELECT kb_add_vectors(%s::smallint, %s, %s)", [model.pk, list(chunk_ids), list(vectors)])
        return int(cursor.fetchone()[0])


def _done(tenant: HasTenantId, model: EmbeddingModel) -> tuple[int, int]:
    with tenant_scope(tenant) as tenant_id:
        done = EmbeddingSet.objects.values_list("count", flat=True).get(tenant_id=tenant_id, model=model)
        return done, Corpus.objects.values_list("chunks", flat=True).get(tenant_id=tenant_id)


def _flip(tenant: HasTenantId, model: EmbeddingModel) -> _Flip:
    """Make the set the live one, unless a chunk still lacks its vector."""
    with tenant_scope(tenant) as tenant_id:
        # Publishing enters its chunks under this lock: none can slip in between look and flip.
        _lock_corpus(tenant_id)
        if _lacking(tenant_id, model):
            return _Flip(done=False)
        sets = EmbeddingSet.objects.filter(tenant_id=tenant_id)
        earlier = sets.filter(state=EmbeddingSet.State.LIVE).exclude(model=model)
        names = tuple(earlier.values_list("model__name", flat=True))
        earlier.update(state=EmbeddingSet.State.KEPT)
        if sets.filter(model=model).exclude(state=EmbeddingSet.State.LIVE).update(state=EmbeddingSet.State.LIVE):
            bump_version(tenant_id)
        return _Flip(done=True, names=names)


def _lacking(tenant_id: UUID, model: EmbeddingModel) -> bool:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT EXISTS (SELECT FROM knowledge_chunk AS c WHERE c.tenant_id = %s"
            " AND NOT EXISTS (SELECT FROM knowledge_embedding AS e"
            "  WHERE e.tenant_id = c.tenant_id AND e.chunk_id = c.id AND e.model_id = %s))",
            [tenant_id, model.pk],
        )
        return bool(cursor.fetchone()[0])


def _drop_some(tenant: HasTenantId, model: EmbeddingModel) -> int:
    """Delete some vectors of a model, and its set with the last of them."""
    with tenant_scope(tenant) as tenant_id, connection.cursor() as cursor:
        _lock_corpus(tenant_id)
        cursor.execute(
            "DELETE FROM knowledge_embedding AS e WHERE e.tenant_id = %s AND e.model_id = %s AND e.chunk_id IN ("
            "SELECT chunk_id FROM knowledge_embedding WHERE tenant_id = %s AND model_id = %s LIMIT %s)",
            [tenant_id, model.pk, tenant_id, model.pk, DROPPED_PER_COMMIT],
        )
        number = int(cursor.rowcount)
        if number < DROPPED_PER_COMMIT:
            EmbeddingSet.objects.filter(tenant_id=tenant_id, model=model).delete()
            return 0
        return number


def _lock_corpus(tenant_id: UUID) -> None:
    list(Corpus.objects.select_for_update().filter(tenant_id=tenant_id))
