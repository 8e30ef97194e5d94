"""Small makers of what tests need, through the product's own doors."""

from __future__ import annotations

import secrets
from functools import cache
from typing import Any

from django.contrib.auth.hashers import make_password

from tenants.facts import TenantFacts
from tenants.keys import KeyOptions, create_key
from tenants.models import SCOPES, Membership, Role, Team, User
from tenants.registry import create_tenant
from tenants.scope import tenant_scope


def make_tenant(name: str = "tenant", **fields: Any) -> TenantFacts:
    """Make a tenant with a slug that no other test has."""
    return create_tenant(f"{name}-{secrets.token_hex(5)}", actor="test", **fields)


def make_key(tenant: TenantFacts, *, team: str = "team", **options: Any) -> str:
    """Make a key (all scopes unless given) and return its text."""
    return create_key(tenant, team, options=KeyOptions(**{"scopes": SCOPES, **options}), actor="test").text


@cache
def _hashed(password: str) -> str:
    """Hash a password once for all people: it is slow on purpose."""
    return make_password(password)


def make_user(*, superuser: bool = False, **fields: Any) -> User:
    """Make a person who can sign in with the password "a long password"."""
    user = User(username=f"user-{secrets.token_hex(5)}", is_staff=True, is_superuser=superuser, **fields)
    user.password = _hashed("a long password")
    user.save()
    return user


def make_member(tenant: TenantFacts, *, role: str, team: str = "led", user: User | None = None) -> User:
    """Make a person (unless given) a member of a tenant; a lead leads the team."""
    person = user or make_user()
    with tenant_scope(tenant):
        led = Team.objects.get_or_create(tenant_id=tenant.id, name=team)[0] if role == Role.LEAD else None
        Membership.objects.create(tenant_id=tenant.id, user=person, role=role, team=led)
    return person
