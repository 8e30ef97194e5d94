"""The frame of commands about a tenant's corpus."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.core.management import CommandError, CommandParser
from django.db import OperationalError

from knowledge.embedding import EmbeddingFailed, ModelUnusable
from knowledge.ingest import BadFlag, BadSource, OtherFolder, SourceIsBusy
from knowledge.walking import FolderNotFound
from tenants.facts import TenantFacts
from tenants.management.facts_command import FactsCommand
from tenants.registry import find_tenant

# What a person can cure by another option ends with 2, as a misspelt option does; the rest with 1.
_USAGE = (BadFlag, BadSource, FolderNotFound, OtherFolder)
_FAILED = (EmbeddingFailed, ModelUnusable, OperationalError, SourceIsBusy)


class CorpusCommand(FactsCommand):
    """A command that works on one tenant's corpus and prints facts."""

    def declare(self, parser: CommandParser) -> None:
        """Declare --tenant, and leave the rest to the command."""
        parser.add_argument("--tenant", required=True, metavar="SLUG", help="whose corpus")
        self.declare_more(parser)

    def declare_more(self, parser: CommandParser) -> None:
        """Declare the command's own arguments."""

    def facts(self, options: Mapping[str, Any]) -> Mapping[str, Any]:
        """Find the tenant and do the work."""
        return self.facts_of(find_tenant(options["tenant"]), options)

    def facts_of(self, tenant: TenantFacts, options: Mapping[str, Any]) -> Mapping[str, Any]:
        """Do the work and return what is to be printed."""
        raise NotImplementedError

    def handle(self, *args: Any, **options: Any) -> None:
        """Do the work and print its facts."""
        try:
            super().handle(*args, **options)
        except _USAGE as error:
            raise CommandError(str(error), returncode=2) from error
        except _FAILED as error:
            raise CommandError(str(error).strip()) from error
