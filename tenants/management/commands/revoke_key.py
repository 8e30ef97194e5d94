"""`revoke_key kb_sk_<id>`: end a key at once."""

from collections.abc import Mapping
from typing import Any

from django.core.management import CommandParser

from tenants.key_owner import public_id, tenant_of_key
from tenants.keys import revoke_key
from tenants.management.facts_command import FactsCommand, actor


class Command(FactsCommand):
    """Ends a key, in every process within a second."""

    help = "Ends a key at once; it can't be brought back."

    def declare(self, parser: CommandParser) -> None:
        """Declare the key."""
        parser.add_argument("key", metavar="kb_sk_ID", help="the key's public id")

    def facts(self, options: Mapping[str, Any]) -> Mapping[str, Any]:
        """End the key."""
        name = public_id(options["key"])
        tenant = tenant_of_key(name)
        key = revoke_key(tenant, name, actor=actor())
        revoked_at = key.revoked_at.isoformat() if key.revoked_at else None
        return {"id": key.public_id, "tenant": tenant.slug, "status": "revoked", "revoked_at": revoked_at}
