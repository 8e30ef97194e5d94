"""What the wire does from time to time: forget what nobody will ask for again."""

from __future__ import annotations

from datetime import timedelta
from typing import Final

from django.utils import timezone
from procrastinate.contrib.django import app

from knowledge.queue import QUEUE
from proxy.gateway.memory import purge
from tenants.registry import tenant_ids

# A session that is taken up again later pays one miss of upstream's prompt cache; the texts of pages that
# were changed or deleted meanwhile must not lie about for longer.
KEPT: Final = timedelta(days=30)


@app.periodic(cron="23 * * * *")
@app.task(name="proxy.forget_blocks", queue=QUEUE, queueing_lock="proxy.forget_blocks")
def forget_blocks(timestamp: int) -> None:
    """Delete every tenant's remembered blocks that are older than KEPT, once an hour."""
    before = timezone.now() - KEPT
    for tenant_id in tenant_ids().values():
        purge(tenant_id, before=before)
