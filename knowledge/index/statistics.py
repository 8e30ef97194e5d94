"""What is counted of a corpus as a whole.

The average length that BM25 weights are made with is frozen, and renewed when it has drifted.
"""

from __future__ import annotations

from uuid import UUID

from django.db import connection
from django.db.models import F
from django.utils import timezone

from knowledge.models import Corpus, EmbeddingModel
from tenants.ids import new_id
from tenants.scope import HasTenantId, tenant_scope

DRIFT = 0.1
"""An average that is wrong by a tenth moves no figure; frozen at 100 for any corpus it costs 1.3 points."""
AT_ONCE = 2_000
"""Chunks whose weights are renewed right after a page was published, about 0.3 ms each."""
PER_COMMIT = 500


def bump_version(tenant_id: UUID) -> None:
    """Count one change of what can be retrieved."""
    have_corpus(tenant_id)
    Corpus.objects.filter(tenant_id=tenant_id).update(version=F("version") + 1, last_ingest_at=timezone.now())


def have_corpus(tenant_id: UUID) -> None:
    """Make the tenant's corpus row if it has none."""
    if not Corpus.objects.filter(tenant_id=tenant_id).exists():
        Corpus.objects.bulk_create([Corpus(tenant_id=tenant_id)], ignore_conflicts=True)


def have_set(model: EmbeddingModel) -> None:
    """Make the tenant's set of this model's vectors if it has none: live when it is the first, else one to build.

    Inside the tenant's scope, with its corpus row there.
    """
    with connection.cursor() as cursor:
        cursor.execute("SELECT kb_have_set(%s::smallint, %s)", [model.pk, new_id()])


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
