"""Whose key is this? For commands, which are given a key's public id and nothing else."""

from __future__ import annotations

from tenants.facts import TenantFacts
from tenants.keys import UnknownKey, parse_key
from tenants.models import Key
from tenants.registry import read_facts, tenant_ids
from tenants.scope import tenant_scope


def public_id(text: str) -> str:
    """Return the public id of `kb_sk_<id>`, or of a whole key that somebody pasted."""
    parsed = parse_key(text)
    return parsed.public_id if parsed else text


def tenant_of_key(public_id: str) -> TenantFacts:
    """Return the tenant that a key belongs to; raises UnknownKey.

    Asks tenant by tenant: no query of ours may see the keys of all of them. About a millisecond each.
    """
    for tenant_id in tenant_ids().values():
        with tenant_scope(tenant_id):
            if Key.objects.filter(tenant_id=tenant_id, public_id=public_id).exists():
                return read_facts(tenant_id)
    raise UnknownKey(f"no key {public_id}")
