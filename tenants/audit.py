"""The record of who did what to a tenant."""

from collections.abc import Iterable
from typing import Any
from uuid import UUID

from tenants.models import AuditEntry
from tenants.scope import HasTenantId


def record(
    tenant: HasTenantId, actor: str, *, action: str, subject: str = "", detail: dict[str, Any] | None = None
) -> None:
    """Append an entry, inside the caller's transaction: no change without its entry, no entry without its change."""
    AuditEntry.objects.create(
        tenant_id=tenant.id, actor=actor[:150], action=action, subject=subject[:200], detail=detail or {}
    )


def record_reads(tenant_ids: Iterable[UUID], actor: str, *, subject: str) -> None:
    """Append, for each of the tenants, that somebody from outside looked at its data."""
    AuditEntry.objects.bulk_create(
        AuditEntry(tenant_id=tenant_id, actor=actor[:150], action="staff.read", subject=subject[:200])
        for tenant_id in tenant_ids
    )
