"""`stats --tenant SLUG`: what a tenant's corpus holds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from knowledge.management.corpus_command import CorpusCommand
from knowledge.search import ENGINE, stats
from tenants.facts import TenantFacts


class Command(CorpusCommand):
    """Counts a tenant's corpus."""

    help = "Says how many chunks, pages and sources a tenant has, and which model its vectors are of."

    def facts_of(self, tenant: TenantFacts, options: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the counts."""
        found = stats(tenant)
        at = found.last_ingest_at
        return {"tenant": tenant.slug, **asdict(found), "last_ingest_at": at and at.isoformat(), "engine": ENGINE}
