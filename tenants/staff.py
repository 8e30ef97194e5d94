"""Who of the staff may enter which tenant, and what they may do there."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final
from uuid import UUID

from django.contrib.auth.models import AnonymousUser
from django.db import DEFAULT_DB_ALIAS, connections

from tenants.connections import connected_as
from tenants.models import Role, User
from tenants.registry import tenant_ids
from tenants.scope import HasTenantId, tenant_scope

SUPERUSER: Final = "superuser"
# What a role may do includes what those before it may. A team lead is beside the ladder: keys and usage
# of the own team, nothing else.
_LADDER = (Role.VIEWER, Role.EDITOR, Role.MANAGER, SUPERUSER)


@dataclass(frozen=True, slots=True)
class Access:
    """One person's way into one tenant; team_id is the team that a lead leads."""

    id: UUID
    slug: str
    role: str
    team_id: int | None = None

    def may(self, role: str) -> bool:
        """Tell whether the person may do what this role may."""
        return self.role in _LADDER and _LADDER.index(self.role) >= _LADDER.index(role)

    @property
    def leads(self) -> bool:
        """Whether the person is here for one team's keys and usage only."""
        return self.role == Role.LEAD


def memberships(user: User | AnonymousUser) -> list[Access]:
    """Return the tenants that a person is a member of, by slug. Nobody without staff status has any."""
    if not (user.is_active and user.is_staff):
        return []
    with connections[DEFAULT_DB_ALIAS].cursor() as cursor:
        cursor.execute("SELECT tenant_id, slug, role, team_id FROM kb_memberships(%s)", [user.pk])
        return [Access(*row) for row in cursor.fetchall()]


def access(user: User | AnonymousUser, slug: str) -> Access | None:
    """Return a person's way into a tenant; None when there is none, and just so when there is no such tenant."""
    if user.is_active and user.is_staff and user.is_superuser:
        found = tenant_ids().get(slug)
        return Access(found, slug, SUPERUSER) if found else None
    return next((mine for mine in memberships(user) if mine.slug == slug), None)


@contextmanager
def acting_in(tenant: HasTenantId | UUID) -> Iterator[None]:
    """Run the block as kb_app in the tenant's scope, whoever asked: what changes a tenant is done from inside."""
    with connected_as(DEFAULT_DB_ALIAS), tenant_scope(tenant):
        yield
