"""Small makers of what tests need, through the product's own doors."""

from __future__ import annotations

import secrets
from typing import Any

from tenants.facts import TenantFacts
from tenants.keys import KeyOptions, create_key
from tenants.models import SCOPES, User
from tenants.registry import create_tenant


def make_tenant(name: str = "tenant", **fields: Any) -> TenantFacts:
    """Make a tenant with a slug that no other test has."""
    return create_tenant(f"{name}-{secrets.token_hex(5)}", actor="test", **fields)


def make_key(tenant: TenantFacts, *, team: str = "team", **options: Any) -> str:
    """Make a key (all scopes unless given) and return its text."""
    return create_key(tenant, team, options=KeyOptions(**{"scopes": SCOPES, **options}), actor="test").text


def make_user(*, superuser: bool = False, **fields: Any) -> User:
    """Make a person who can sign in with the password "a long password"."""
    user = User(username=f"user-{secrets.token_hex(5)}", is_staff=True, is_superuser=superuser, **fields)
    user.set_password("a long password")
    user.save()
    return user
