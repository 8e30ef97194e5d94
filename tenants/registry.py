"""Tenants themselves: making, finding and changing them."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any
from uuid import UUID, uuid4

from django.conf import settings
from django.core.exceptions import ValidationError
from django.db import DEFAULT_DB_ALIAS, IntegrityError, connections, transaction

from tenants import audit, changes
from tenants.facts import TenantFacts, sealed_upstream_key, tenant_facts
from tenants.languages import language_code
from tenants.models import Tenant
from tenants.scope import HasTenantId, tenant_scope


class UnknownTenant(Exception):
    """No tenant of that slug."""


class TenantExists(Exception):
    """A tenant of that slug is there already."""


class BadTenantSetting(Exception):
    """A tenant setting is unknown or has a value that cannot be used; the message names it."""


def _yes(text: str) -> bool:
    if text.lower() not in {"1", "0", "true", "false", "on", "off", "yes", "no"}:
        raise ValueError("use on or off")
    return text.lower() in {"1", "true", "on", "yes"}


def _finite(text: str) -> float:
    if not math.isfinite(value := float(text)):
        raise ValueError("use a number")
    return value


# Settings with a handle (`set_tenant SLUG NAME=VALUE`) and how their text becomes a value.
SETTINGS: Mapping[str, Callable[[str], Any]] = {
    "name": str,
    "gate": _finite,
    "dense_weight": _finite,
    "top_k": int,
    "placement": str,
    "search_deadline_ms": int,
    "tokens_per_question": int,
    "tokens_per_session": int,
    "unmarked_pages": str,
    "product": str,
    "language": language_code,
    "upstream_url": str,
    "upstream_key": str,
    "bring_your_own_key": _yes,
    "retries": int,
}


def create_tenant(slug: str, *, name: str = "", language: str = "en", product: str = "", actor: str) -> TenantFacts:
    """Make a tenant; raises TenantExists or BadTenantSetting."""
    tenant = Tenant(
        id=uuid4(),
        slug=slug,
        name=name or slug,
        language=_parsed("language", language),
        product=product,
        gate=settings.KB_EVIDENCE_GATE,
    )
    _validated(tenant)
    try:
        with tenant_scope(tenant.id):
            with transaction.atomic():
                tenant.save(force_insert=True)
            audit.record(tenant, actor, action="tenant.create", subject=slug)
    except IntegrityError as error:
        raise TenantExists(f"tenant {slug} is there already") from error
    return tenant_facts(tenant)


def tenant_ids() -> dict[str, UUID]:
    """Return the id of every tenant by slug: one of the three reads that need no tenant."""
    with connections[DEFAULT_DB_ALIAS].cursor() as cursor:
        cursor.execute("SELECT slug, id FROM kb_tenant_ids()")
        return dict(cursor.fetchall())


def find_tenant(slug: str) -> TenantFacts:
    """Return a tenant's facts by its slug; raises UnknownTenant."""
    tenant_id = tenant_ids().get(slug)
    if tenant_id is None:
        raise UnknownTenant(f"no tenant {slug}; `create_tenant {slug}` makes it")
    return read_facts(tenant_id)


def read_facts(tenant_id: UUID) -> TenantFacts:
    """Return a tenant's facts by its id; raises UnknownTenant."""
    with tenant_scope(tenant_id):
        tenant = Tenant.objects.filter(id=tenant_id).first()
    if tenant is None:
        raise UnknownTenant(f"no tenant {tenant_id}")
    return tenant_facts(tenant)


def set_tenant(tenant: HasTenantId, values: Mapping[str, str], *, actor: str) -> TenantFacts:
    """Change settings, given as text by name; raises BadTenantSetting and then changes none."""
    parsed = {name: _parsed(name, text) for name, text in values.items()}
    with tenant_scope(tenant):
        row = Tenant.objects.select_for_update().get(id=tenant.id)
        for name, value in parsed.items():
            setattr(row, name, sealed_upstream_key(tenant.id, value) if name == "upstream_key" else value)
        _validated(row)
        row.save(update_fields=list(parsed))
        audit.record(tenant, actor, action="tenant.set", subject=row.slug, detail={"names": sorted(parsed)})
        changes.announce(tenant)
    return tenant_facts(row)


def _parsed(name: str, text: str) -> Any:
    if name not in SETTINGS:
        raise BadTenantSetting(f"{name} is no tenant setting; use one of {', '.join(SETTINGS)}")
    try:
        value = SETTINGS[name](text)
        if name == "upstream_url" and text:
            return settings.CHECK_UPSTREAM_URL(text)
    except ValueError as error:
        raise BadTenantSetting(f"{name}: {error}") from error
    return value


def _validated(tenant: Tenant) -> None:
    try:
        tenant.full_clean(validate_unique=False, validate_constraints=False, exclude=["upstream_key"])
    except ValidationError as error:
        name, messages = next(iter(error.message_dict.items()))
        raise BadTenantSetting(f"{name}: {' '.join(messages)}") from error
