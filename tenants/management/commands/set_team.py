"""`set_team TEAM --tenant SLUG --limit NAME=VALUE`: change what a team may use in all."""

from collections.abc import Mapping
from typing import Any

from django.core.management import CommandParser

from tenants.limits import LIMITS, parse_limits
from tenants.management.facts_command import FactsCommand, actor
from tenants.registry import find_tenant
from tenants.teams import set_team


class Command(FactsCommand):
    """Changes a team's limits."""

    help = "Changes the limits of a team, which all its keys share."

    def declare(self, parser: CommandParser) -> None:
        """Declare team, tenant and limits."""
        parser.add_argument("team", help="the team")
        parser.add_argument("--tenant", required=True, metavar="SLUG", help="its tenant")
        parser.add_argument(
            "--limit",
            action="append",
            required=True,
            metavar="NAME=VALUE",
            help=f"{', '.join(LIMITS)} (money in US dollars); NAME= takes the limit away; may be given again",
        )

    def facts(self, options: Mapping[str, Any]) -> Mapping[str, Any]:
        """Change the limits and show all that the team has."""
        tenant = find_tenant(options["tenant"])
        team = set_team(tenant, options["team"], limits=parse_limits(options["limit"]), actor=actor())
        return {"tenant": tenant.slug, "team": team.name, "limits": team.limits}
