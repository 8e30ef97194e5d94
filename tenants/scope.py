"""Which tenant the database may show: the second line behind every query's own predicate."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Protocol
from uuid import UUID

from django.db import DEFAULT_DB_ALIAS, connections, transaction
from psycopg import sql


class HasTenantId(Protocol):
    """Anything with a tenant's id: a Tenant row or TenantFacts."""

    @property
    def id(self) -> UUID: ...


class ScopeMixedUp(Exception):
    """A scope of one tenant was entered inside a scope of another."""


_current: ContextVar[tuple[str, UUID] | None] = ContextVar("tenant_scope", default=None)


@contextmanager
def tenant_scope(tenant: HasTenantId | UUID, *, using: str = DEFAULT_DB_ALIAS) -> Iterator[UUID]:
    """Open a transaction in which the database shows and takes rows of this tenant only.

    Inside it ``kb_tenant_id()`` answers the tenant's id; outside it raises. Entering the same tenant
    again is a plain nested transaction; entering another one raises ScopeMixedUp, because a released
    savepoint would keep the inner tenant.
    """
    tenant_id = tenant if isinstance(tenant, UUID) else tenant.id
    inside = _current.get()
    if inside is not None and inside != (using, tenant_id):
        raise ScopeMixedUp(f"inside the scope of tenant {inside[1]}, the scope of {tenant_id} cannot be entered")
    with transaction.atomic(using=using):
        if inside is None:
            # A literal SET LOCAL, the only form that also reaches the shards of a Citus cluster. It ends
            # with the transaction, so nothing travels to the connection's next user.
            with connections[using].cursor() as cursor:
                cursor.execute(_set_local(tenant_id))
        token = _current.set((using, tenant_id))
        try:
            yield tenant_id
        finally:
            _current.reset(token)


def _set_local(tenant_id: UUID) -> str:
    statement = sql.SQL("SET LOCAL app.tenant_id TO {}").format(sql.Literal(str(UUID(str(tenant_id)))))
    return statement.as_string()
