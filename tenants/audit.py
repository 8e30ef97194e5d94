"""The record of who did what to a tenant."""

from typing import Any

from tenants.models import AuditEntry
from tenants.scope import HasTenantId


def record(
    tenant: HasTenantId, actor: str, *, action: str, subject: str = "", detail: dict[str, Any] | None = None
) -> None:
    """Append an entry, inside the caller's transaction: no change without its entry, no entry without its change."""
    AuditEntry.objects.create(
        tenant_id=tenant.id, actor=actor[:150], action=action, subject=subject[:200], detail=detail or {}
    )
