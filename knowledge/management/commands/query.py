"""`query TEXT --tenant SLUG`: what a search finds."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from django.core.management import CommandParser

from knowledge.management.corpus_command import CorpusCommand
from knowledge.search import ENGINE, MOST_HITS, Hit, search
from tenants.facts import TenantFacts

SNIPPET = 480


class Command(CorpusCommand):
    """Searches a tenant's corpus."""

    help = "Shows the best chunks for a question, with score and evidence."

    def declare_more(self, parser: CommandParser) -> None:
        """Declare the question and how many hits are wanted."""
        parser.add_argument("text", type=_question, help="the question")
        parser.add_argument("--top-k", type=_number_of_hits, default=8, help=f"hits, 1 to {MOST_HITS} (default 8)")

    def facts_of(self, tenant: TenantFacts, options: Mapping[str, Any]) -> Mapping[str, Any]:
        """Search and return the hits."""
        found = search(tenant, options["text"], top_k=options["top_k"])
        facts = {"engine": ENGINE, "corpus_version": found.corpus_version, "took_ms": round(found.took_ms, 1)}
        return {"hits": [_shown(hit) for hit in found.hits], "evidence": found.evidence, "gate": tenant.gate, **facts}

    def text(self, facts: Mapping[str, Any]) -> str:
        """Show each hit as a place, its figures and the begin of its text."""
        verdict = "passes" if facts["evidence"] >= facts["gate"] else "does not pass"
        ends = [f"evidence {facts['evidence']:.3f} {verdict} the gate of {facts['gate']:g}"]
        return "\n\n".join([*(_paragraph(hit) for hit in facts["hits"]), *ends])


def _shown(hit: Hit) -> dict[str, Any]:
    return {**asdict(hit), "text": hit.text[:SNIPPET]}


def _paragraph(hit: Mapping[str, Any]) -> str:
    first, last = hit["lines"]
    figures = f"score {hit['score']:.3f}, evidence {hit['evidence']:.3f}, source {hit['source']}"
    lines = hit["text"].splitlines()[:6]
    return "\n".join([f"{hit['path']}#L{first}-L{last}  {figures}", *(f"  {line}" for line in lines)])


def _question(text: str) -> str:
    if not text.strip():
        raise argparse.ArgumentTypeError("the question is empty")
    return text


def _number_of_hits(text: str) -> int:
    number = int(text) if text.isascii() and text.isdigit() else 0
    if not 1 <= number <= MOST_HITS:
        raise argparse.ArgumentTypeError(f"use a number from 1 to {MOST_HITS}")
    return number
