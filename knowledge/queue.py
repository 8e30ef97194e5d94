"""The one door to the queue. Its jobs carry ids only: what is to be done lies in our own tables."""

from __future__ import annotations

from procrastinate.contrib.django import app

from tenants.scope import HasTenantId

QUEUE = "knowledge"
INGEST = "knowledge.ingest"


def enqueue_ingest(tenant: HasTenantId, *, job_id: int, source_id: int) -> None:
    """Queue a job of documents within the current transaction: no commit, no place in the queue.

    Jobs of one source run one after another, in this order.
    """
    queued = app.configure_task(INGEST, queue=QUEUE, lock=f"source {tenant.id} {source_id}")
    queued.defer(tenant_id=str(tenant.id), job_id=job_id)
