"""`rotate_key kb_sk_<id> [--overlap 24h]`: give a key a new secret."""

from collections.abc import Mapping
from typing import Any

from django.core.management import CommandParser
from django.utils import timezone

from tenants.key_owner import public_id, tenant_of_key
from tenants.keys import rotate_key
from tenants.management.facts_command import FactsCommand, actor
from tenants.management.times import span
from tenants.models import Team
from tenants.scope import tenant_scope


class Command(FactsCommand):
    """Gives a key a new secret and prints it once; the old one stays valid for the overlap."""

    help = "Gives a key a new secret and prints the key once; the old one stays valid for the overlap."

    def declare(self, parser: CommandParser) -> None:
        """Declare key and overlap."""
        parser.add_argument("key", metavar="kb_sk_ID", help="the key's public id")
        help = "how long the old secret stays valid (default 24h; 0: not at all)"
        parser.add_argument("--overlap", type=span, default=span("24h"), metavar="SPAN", help=help)

    def facts(self, options: Mapping[str, Any]) -> Mapping[str, Any]:
        """Make the secret."""
        name = public_id(options["key"])
        tenant = tenant_of_key(name)
        until = timezone.now() + options["overlap"]
        new = rotate_key(tenant, name, overlap=options["overlap"], actor=actor())
        with tenant_scope(tenant):
            team = Team.objects.get(tenant_id=tenant.id, id=new.row.team_id)
        return {
            "key": new.text,
            "id": new.row.public_id,
            "tenant": tenant.slug,
            "team": team.name,
            "kind": new.row.kind,
            "scopes": new.row.scopes,
            "old_valid_until": until.isoformat(),
        }
