"""`list_keys --tenant SLUG`: show a tenant's keys, without their secrets."""

from collections.abc import Mapping
from typing import Any

from django.core.management import CommandParser
from django.utils import timezone

from tenants.management.facts_command import FactsCommand
from tenants.models import Key
from tenants.registry import find_tenant
from tenants.scope import tenant_scope


class Command(FactsCommand):
    """Shows keys with team, scopes and status."""

    help = "Shows a tenant's keys with team, scopes and status; secrets can't be shown."

    def declare(self, parser: CommandParser) -> None:
        """Declare the tenant."""
        parser.add_argument("--tenant", required=True, metavar="SLUG", help="the tenant")

    def facts(self, options: Mapping[str, Any]) -> Mapping[str, Any]:
        """Read the keys, the newest last."""
        tenant = find_tenant(options["tenant"])
        with tenant_scope(tenant):
            rows = Key.objects.filter(tenant_id=tenant.id).select_related("team").order_by("created_at", "id")
            return {"tenant": tenant.slug, "keys": [_shown(key) for key in rows]}

    def text(self, facts: Mapping[str, Any]) -> str:
        """Say a line for each key."""
        lines = [
            f"{key['id']}  {key['status']}  {key['team']}  {','.join(key['scopes'])}  {key['name']}".rstrip()
            for key in facts["keys"]
        ]
        return "\n".join(lines) or f"{facts['tenant']} has no keys"


def _shown(key: Key) -> dict[str, Any]:
    times = {name: getattr(key, name) for name in ("created_at", "expires_at", "revoked_at", "last_used_at")}
    return {
        "id": key.public_id,
        "name": key.name,
        "team": key.team.name,
        "kind": key.kind,
        "status": _status(key),
        "scopes": key.scopes,
        "sources": key.sources,
        "source_types": key.source_types,
        "products": key.products,
        "user_facing": key.user_facing,
        "models": key.allowed_models,
        "placement": key.placement,
        "cache": key.cache_enabled,
        "origins": key.origins,
        "limits": key.limits,
        **{name: value.isoformat() if value else None for name, value in times.items()},
    }


def _status(key: Key) -> str:
    if key.revoked_at:
        return "revoked"
    return "expired" if key.expires_at and key.expires_at <= timezone.now() else "active"
