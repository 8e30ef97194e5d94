"""`reembed --tenant SLUG`: move a tenant's vectors to the model that the settings name, or another."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from django.core.management import CommandParser
from tqdm import tqdm

from knowledge.embedding import provider
from knowledge.management.corpus_command import CorpusCommand
from knowledge.reembed import drop_old, reembed
from tenants.facts import TenantFacts


class Command(CorpusCommand):
    """Embeds every chunk with a model, searches by it from then on, and drops the earlier vectors."""

    help = (
        "Embeds every chunk of a tenant with the model that the settings name, beside the vectors there are; then "
        "searches by the new ones and drops the old. Questions are answered throughout. Interrupted, it goes on "
        "where it was. With web processes still running the earlier model: --keep-old now, --drop-old after them."
    )

    def declare_more(self, parser: CommandParser) -> None:
        """Declare the model and what becomes of the old vectors."""
        parser.add_argument("--model", help="another model than KB_EMBEDDING_MODEL")
        parser.add_argument("--keep-old", action="store_true", help="keep the old vectors searchable")
        parser.add_argument("--drop-old", action="store_true", help="only drop vectors kept earlier")

    def facts_of(self, tenant: TenantFacts, options: Mapping[str, Any]) -> Mapping[str, Any]:
        """Move, or drop, and return what was done."""
        if options["drop_old"]:
            return {"tenant": tenant.slug, "dropped": list(drop_old(tenant))}
        with tqdm(unit="chunk", file=sys.stderr, disable=not sys.stderr.isatty(), leave=False) as bar:

            def show(done: int, total: int) -> None:
                bar.total = total
                bar.update(done - bar.n)

            done = reembed(tenant, provider=provider(options["model"]), keep_old=options["keep_old"], progress=show)
        return {"tenant": tenant.slug, **asdict(done), "before": list(done.before)}
