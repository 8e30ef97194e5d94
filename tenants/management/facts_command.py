"""The frame of commands that change or show tenants: facts for people or, with --json, for programs."""

from __future__ import annotations

import getpass
import json
from collections.abc import Mapping
from typing import Any

from django.core.management import BaseCommand, CommandError, CommandParser

from tenants.credentials import NoCredentialKey
from tenants.keys import BadKey, UnknownKey
from tenants.limits import BadLimit
from tenants.registry import BadTenantSetting, TenantExists, UnknownTenant
from tenants.teams import UnknownTeam

# What a person can cure by another option ends with 2, as a misspelt option does; the rest with 1.
_USAGE = (BadKey, BadLimit, BadTenantSetting)
_FAILED = (NoCredentialKey, TenantExists, UnknownKey, UnknownTeam, UnknownTenant)


class FactsCommand(BaseCommand):
    """A command that prints facts. Its errors are one line, its exit status 0, 1 or 2."""

    # The checks import the whole project and would be most of the command's time.
    requires_system_checks = ()

    def add_arguments(self, parser: CommandParser) -> None:
        """Declare --json, and leave the rest to the command."""
        parser.add_argument("--json", action="store_true", help="print one JSON object, for programs")
        self.declare(parser)

    def declare(self, parser: CommandParser) -> None:
        """Declare the command's own arguments."""
        raise NotImplementedError

    def facts(self, options: Mapping[str, Any]) -> Mapping[str, Any]:
        """Do the work and return what is to be printed."""
        raise NotImplementedError

    def text(self, facts: Mapping[str, Any]) -> str:
        """Say the facts for a person: a line each, unless the command knows better."""
        return "\n".join(f"{name}: {_plain(value)}" for name, value in facts.items())

    def handle(self, *args: Any, **options: Any) -> None:
        """Do the work and print its facts."""
        try:
            facts = self.facts(options)
        except _USAGE as error:
            raise CommandError(str(error), returncode=2) from error
        except _FAILED as error:
            raise CommandError(str(error)) from error
        self.stdout.write(json.dumps(facts) if options["json"] else self.text(facts))


def actor() -> str:
    """Return who runs the command, for the audit."""
    try:
        return f"command of {getpass.getuser()}"
    except (KeyError, OSError):  # a user id without a name, as containers have
        return "command"


def names(text: str) -> tuple[str, ...]:
    """Parse `a,b`."""
    return tuple(part.strip() for part in text.split(",") if part.strip())


def _plain(value: object) -> str:
    if isinstance(value, list | tuple):
        return ", ".join(map(str, value)) or "-"
    return "-" if value in (None, "", {}) else str(value)
