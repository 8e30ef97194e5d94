"""`create_tenant SLUG`: make a tenant."""

from collections.abc import Mapping
from typing import Any

from django.core.management import CommandParser

from tenants.management.facts_command import FactsCommand, actor
from tenants.registry import create_tenant


class Command(FactsCommand):
    """Makes a tenant."""

    help = "Makes a tenant."

    def declare(self, parser: CommandParser) -> None:
        """Declare slug, name, language and product."""
        parser.add_argument("slug", help="its name in paths: a-z, 0-9 and inner hyphens")
        parser.add_argument("--name", default="", help="its name for people (default: the slug)")
        parser.add_argument("--language", default="en", help="es or spanish: for text whose language is not clear")
        parser.add_argument("--product", default="", help="pages of another product are not user-facing")

    def facts(self, options: Mapping[str, Any]) -> Mapping[str, Any]:
        """Make the tenant."""
        tenant = create_tenant(
            options["slug"],
            name=options["name"],
            language=options["language"],
            product=options["product"],
            actor=actor(),
        )
        return {"tenant": tenant.slug, "id": str(tenant.id), "language": tenant.language}
