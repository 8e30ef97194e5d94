"""`create_roles URL`: make the database roles on a PostgreSQL of your own, or print the SQL for it."""

from __future__ import annotations

import json
import secrets
from typing import Any
from urllib.parse import quote, urlsplit

from django.conf import settings
from django.core.management import BaseCommand, CommandError, CommandParser

from tenants.database_roles import LOGIN_ROLES, RolesNotMade, create_roles, roles_sql

# Which setting connects as which role.
SETTINGS = {"default": "DATABASE_URL", "owner": "KB_OWNER_DATABASE_URL", "staff": "KB_STAFF_DATABASE_URL"}
ALIASES = {"kb_app": "default", "kb_owner": "owner", "kb_staff": "staff"}


class Command(BaseCommand):
    """Makes the roles that the platform connects as."""

    help = (
        "Makes the database roles on a PostgreSQL that ./kb does not run. Passwords are those of DATABASE_URL, "
        "KB_OWNER_DATABASE_URL and KB_STAFF_DATABASE_URL; for a role without one a password is made and its URL "
        "printed, once."
    )
    requires_system_checks = ()

    def add_arguments(self, parser: CommandParser) -> None:
        """Declare the administrator's URL and --print."""
        parser.add_argument(
            "url", nargs="?", help="postgresql://administrator:password@host/database; - reads it from a line of input"
        )
        parser.add_argument("--print", action="store_true", help="print the SQL for an administrator, run nothing")
        parser.add_argument("--json", action="store_true", help="print one JSON object, for programs")

    def handle(self, *args: Any, **options: Any) -> None:
        """Make the roles, or print how to."""
        if options["print"]:
            self.stdout.write(roles_sql())
            return
        url = input() if options["url"] == "-" else options["url"]
        if not url:
            raise CommandError("give the administrator's URL, or --print", returncode=2)
        passwords = {role: _known_password(role) for role in LOGIN_ROLES}
        made = {role: secrets.token_urlsafe(24) for role, password in passwords.items() if not password}
        try:
            create_roles(url, passwords={**passwords, **made})
        except RolesNotMade as error:
            raise CommandError(str(error)) from error
        urls = {SETTINGS[ALIASES[role]]: _url(url, role, password) for role, password in made.items()}
        self._say(urls, as_json=options["json"])

    def _say(self, urls: dict[str, str], *, as_json: bool) -> None:
        if as_json:
            self.stdout.write(json.dumps({"roles": list(LOGIN_ROLES), "settings": urls}))
            return
        self.stdout.write(f"roles are there: {', '.join(LOGIN_ROLES)}")
        for name, value in urls.items():
            self.stdout.write(f"{name}={value}")


def _known_password(role: str) -> str:
    """Return the password that the settings have for the role, if they connect as it."""
    database = settings.DATABASES[ALIASES[role]]
    return str(database.get("PASSWORD") or "") if database.get("USER") == role else ""


def _url(url: str, role: str, password: str) -> str:
    parts = urlsplit(url)
    place = parts.netloc.rpartition("@")[2]
    return parts._replace(netloc=f"{role}:{quote(password, safe='')}@{place}").geturl()
