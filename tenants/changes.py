"""Word to every process that a tenant's keys or settings changed, so that none acts on what it remembers."""

from __future__ import annotations

from django.db import connections
from django.db.utils import DEFAULT_DB_ALIAS

from tenants.scope import HasTenantId

CHANNEL = "kb_tenant_changed"


def announce(tenant: HasTenantId, *, using: str = DEFAULT_DB_ALIAS) -> None:
    """Tell all processes when the current transaction commits; they drop what they remember of the tenant."""
    with connections[using].cursor() as cursor:
        cursor.execute("SELECT pg_notify(%s, %s)", [CHANNEL, str(tenant.id)])
