"""`create_key --tenant SLUG --team NAME`: make a key and print it, once."""

from collections.abc import Mapping
from typing import Any

from django.core.management import CommandParser

from tenants.keys import DEFAULT_SCOPES, KeyOptions, create_key
from tenants.limits import LIMITS, parse_limits
from tenants.management.facts_command import FactsCommand, actor, names
from tenants.management.times import moment
from tenants.models import SCOPES, KeyKind, Placement
from tenants.registry import find_tenant


class Command(FactsCommand):
    """Makes a key and prints it: the only time that it is shown."""

    help = "Makes a key for a team (and the team, if there is none of that name) and prints it once."

    def declare(self, parser: CommandParser) -> None:
        """Declare whose key it is and what it may do."""
        parser.add_argument("--tenant", required=True, metavar="SLUG", help="the tenant")
        parser.add_argument("--team", required=True, metavar="NAME", help="the team")
        parser.add_argument("--name", default="", help="what the key is for")
        parser.add_argument("--kind", choices=KeyKind.values, default=KeyKind.TEAM, help="team or widget key")
        scopes = f"some of {','.join(SCOPES)} (default: {','.join(DEFAULT_SCOPES)})"
        parser.add_argument("--scopes", type=names, metavar="a,b", help=scopes)
        self._declare_knowledge(parser)
        self._declare_use(parser)

    def _declare_knowledge(self, parser: CommandParser) -> None:
        group = parser.add_argument_group("knowledge that the key sees")
        group.add_argument("--sources", type=names, default=(), metavar="a,b", help="these sources only")
        group.add_argument("--source-types", type=names, default=(), metavar="a,b", help="these types only")
        group.add_argument("--products", type=names, default=(), metavar="a,b", help="these products only")
        group.add_argument("--user-facing", action="store_true", help="user-facing pages only")
        group.add_argument("--placement", choices=Placement.values, default="", help="instead of the tenant's")
        group.add_argument("--cache", choices=("on", "off"), default="off", help="the semantic cache of answers")

    def _declare_use(self, parser: CommandParser) -> None:
        group = parser.add_argument_group("use")
        group.add_argument("--models", type=names, default=(), metavar="a,b", help="these models only")
        group.add_argument("--origins", type=names, default=(), metavar="o,p", help="sites of a widget key")
        group.add_argument("--expires", type=moment, metavar="WHEN", help="2027-01-31, 30d or 24h")
        limit = f"{', '.join(LIMITS)} (money in US dollars); may be given again"
        group.add_argument("--limit", action="append", default=[], metavar="NAME=VALUE", help=limit)

    def facts(self, options: Mapping[str, Any]) -> Mapping[str, Any]:
        """Make the key."""
        tenant = find_tenant(options["tenant"])
        limits = {name: value for name, value in parse_limits(options["limit"]).items() if value is not None}
        same = ("kind", "name", "scopes", "sources", "source_types", "products", "user_facing", "models")
        wanted = KeyOptions(
            **{name: options[name] for name in same},
            placement=options["placement"],
            cache=options["cache"] == "on",
            origins=options["origins"],
            expires_at=options["expires"],
            limits=limits,
        )
        new = create_key(tenant, options["team"], options=wanted, actor=actor())
        return {
            "key": new.text,
            "id": new.row.public_id,
            "tenant": tenant.slug,
            "team": options["team"],
            "kind": new.row.kind,
            "scopes": new.row.scopes,
        }
