"""`set_tenant SLUG NAME=VALUE…`: change a tenant's settings."""

from collections.abc import Mapping
from typing import Any

from django.core.management import CommandParser

from tenants.management.facts_command import FactsCommand, actor
from tenants.registry import SETTINGS, BadTenantSetting, find_tenant, set_tenant


class Command(FactsCommand):
    """Changes settings of a tenant, all of those given or none."""

    help = f"Changes settings of a tenant: {', '.join(SETTINGS)}."

    def declare(self, parser: CommandParser) -> None:
        """Declare slug and settings."""
        parser.add_argument("slug", help="the tenant")
        parser.add_argument("changes", nargs="+", metavar="NAME=VALUE", help="one or more settings")

    def facts(self, options: Mapping[str, Any]) -> Mapping[str, Any]:
        """Change the settings and show them as they are now; a credential is never shown."""
        pairs = [pair.partition("=") for pair in options["changes"]]
        for name, equals, _ in pairs:
            if not equals:
                raise BadTenantSetting(f"{name}: use NAME=VALUE")
        values = {name: value for name, _, value in pairs}
        tenant = set_tenant(find_tenant(options["slug"]), values, actor=actor())
        shown = {name: getattr(tenant, name) for name in values if name != "upstream_key"}
        hidden = {"upstream_key": "set" if tenant.upstream_key else ""} if "upstream_key" in values else {}
        return {"tenant": tenant.slug, **shown, **hidden}
