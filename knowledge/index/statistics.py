"""The average length that BM25 weights are made with is frozen, and renewed when it has drifted."""

from __future__ import annotations

from uuid import UUID

from django.db import connection

from knowledge.models import Corpus
from tenants.scope import HasTenantId, tenant_scope

DRIFT = 0.1
"""An average that is wrong by a tenth moves no figure; frozen at 100 for any corpus it costs 1.3 points."""
AT_ONCE = 2_000
"""Chunks whose weights are renewed right after a page was published, about 0.3 ms each."""
PER_COMMIT = 500


def keep_average(tenant: HasTenantId) -> int:
    """Renew the weights of a small corpus whose average drifted; returns the chunks renewed.

    A large corpus drifts slowly and is renewed by refreeze, which the worker calls after a job.
    """
    with tenant_scope(tenant) as tenant_id:
        corpus = Corpus.objects.filter(tenant_id=tenant_id).first()
    if corpus is None or corpus.chunks > AT_ONCE:
        return 0
    return refreeze(tenant)


def refreeze(tenant: HasTenantId, *, drift: float = DRIFT) -> int:
    """Renew every chunk's weights when the true average length differs from the frozen one by more.

    Works in small commits: readers may meet weights of both averages, which differ by little. The new
    average is written last, so an interrupted renewal is begun again. Returns the chunks renewed.
    """
    with tenant_scope(tenant) as tenant_id:
        corpus = Corpus.objects.filter(tenant_id=tenant_id).first()
    if corpus is None or not corpus.chunks:
        return 0
    average = corpus.tokens / corpus.chunks
    if abs(average - corpus.average_length) <= drift * corpus.average_length:
        return 0
    renewed, last = 0, 0
    while True:
        with tenant_scope(tenant) as tenant_id:
            some = _renew(tenant_id, after=last, average=average)
            if not some:
                Corpus.objects.filter(tenant_id=tenant_id).update(average_length=average)
                return renewed
        renewed, last = renewed + len(some), max(some)


def _renew(tenant_id: UUID, *, after: int, average: float) -> list[int]:
    with connection.cursor() as cursor:
        cursor.execute(
            "UPDATE knowledge_chunkterms AS t SET bm = kb_weights(t.tsv, %s) FROM ("
            "  SELECT chunk_id FROM knowledge_chunkterms"
            "  WHERE tenant_id = %s AND chunk_id > %s ORDER BY chunk_id LIMIT %s FOR UPDATE"
            ") AS picked WHERE t.tenant_id = %s AND t.chunk_id = picked.chunk_id RETURNING t.chunk_id",
            [average, tenant_id, after, PER_COMMIT, tenant_id],
        )
        return [row[0] for row in cursor.fetchall()]
