"""What the rest of the product needs to know of a tenant and of a caller, read once and never changed."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from uuid import UUID

from tenants.credentials import seal, unseal
from tenants.filters import KnowledgeFilter
from tenants.models import Key, Tenant

_UPSTREAM_KEY_PLACE = "tenants_tenant|upstream_key"


@dataclass(frozen=True, slots=True)
class TenantFacts:
    """A tenant's settings at one moment."""

    id: UUID
    slug: str
    name: str = ""
    language: str = "en"
    product: str = ""
    unmarked_pages: str = "internal"
    gate: float = 0.25
    dense_weight: float = 0.4
    top_k: int = 6
    placement: str = "message"
    search_deadline_ms: int = 150
    tokens_per_question: int = 1_000
    tokens_per_session: int = 20_000
    upstream_url: str = ""
    upstream_key: str = field(default="", repr=False)
    bring_your_own_key: bool = False
    retries: int = 0


@dataclass(frozen=True, slots=True)
class Caller:
    """Who a key says is calling, and what it may do."""

    key_id: int
    public_id: str
    kind: str
    key_name: str
    tenant: TenantFacts
    team_id: int
    team: str
    scopes: frozenset[str]
    filter: KnowledgeFilter
    models: tuple[str, ...] = ()
    placement: str = ""
    cache_enabled: bool = False
    subagent_knowledge: bool = False
    origins: tuple[str, ...] = ()
    expires_at: datetime | None = None
    limits: dict[str, Any] = field(default_factory=dict)


def tenant_facts(tenant: Tenant) -> TenantFacts:
    """Return the facts of a tenant row, its upstream credential opened."""
    return TenantFacts(
        id=tenant.id,
        slug=tenant.slug,
        name=tenant.name,
        language=tenant.language,
        product=tenant.product,
        unmarked_pages=tenant.unmarked_pages,
        gate=tenant.gate,
        dense_weight=tenant.dense_weight,
        top_k=tenant.top_k,
        placement=tenant.placement,
        search_deadline_ms=tenant.search_deadline_ms,
        tokens_per_question=tenant.tokens_per_question,
        tokens_per_session=tenant.tokens_per_session,
        upstream_url=tenant.upstream_url,
        upstream_key=unseal(tenant.id, bytes(tenant.upstream_key), place=_UPSTREAM_KEY_PLACE),
        bring_your_own_key=tenant.bring_your_own_key,
        retries=tenant.retries,
    )


def sealed_upstream_key(tenant_id: UUID, secret: str) -> bytes:
    """Return what Tenant.upstream_key holds for a credential."""
    return seal(tenant_id, secret, place=_UPSTREAM_KEY_PLACE)


def caller_of(key: Key) -> Caller:
    """Return the caller that a key row (with team and tenant read) stands for."""
    return Caller(
        key_id=key.id,
        public_id=key.public_id,
        kind=key.kind,
        key_name=key.name,
        tenant=tenant_facts(key.tenant),
        team_id=key.team_id,
        team=key.team.name,
        scopes=frozenset(key.scopes),
        filter=KnowledgeFilter(
            sources=tuple(key.sources),
            source_types=tuple(key.source_types),
            products=tuple(key.products),
            user_facing=key.user_facing or key.kind == "pk",
        ),
        models=tuple(key.allowed_models),
        placement=key.placement,
        cache_enabled=key.cache_enabled,
        subagent_knowledge=key.subagent_knowledge,
        origins=tuple(key.origins),
        expires_at=key.expires_at,
        limits=dict(key.limits),
    )
