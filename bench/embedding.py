"""How fast the configured provider embeds: chunks a second on one thread, and milliseconds a query."""

from __future__ import annotations

import argparse
import json
import os
import time

from bench.product import percentile

TEXT = (
    "the server reads each page of the source and writes its chunks in one transaction so that readers see the old "
    "page or the new one while a failed listing deletes nothing and every skipped file is listed with a reason"
)
WORDS = TEXT.split()


def main(arguments: list[str]) -> int:
    """Embed chunks of about 200 tokens and short queries; print the figures as JSON."""
    parser = argparse.ArgumentParser(prog="python -m bench embedding", description=__doc__)
    parser.add_argument("--chunks", type=int, default=128)
    parser.add_argument("--queries", type=int, default=50)
    options = parser.parse_args(arguments)
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "kbplatform.settings")
    import django

    django.setup()
    from knowledge import embedding

    provider = embedding.provider()
    provider.embed([_text(1, 20)], role="query")
    cpu, begun = time.process_time(), time.perf_counter()
    embedding.embed_documents([_text(number, 160) for number in range(options.chunks)])
    cpu, wall = time.process_time() - cpu, time.perf_counter() - begun
    queries = [
        _timed(lambda number=number: provider.embed([_text(number, 9)], role="query"))
        for number in range(options.queries)
    ]
    figures = {
        "model": provider.spec.id,
        "chunks_per_second": round(options.chunks / wall, 1),
        "chunks_per_cpu_second": round(options.chunks / cpu, 1),
        "query_ms_p50": round(percentile(queries, 0.5), 1),
        "query_ms_p95": round(percentile(queries, 0.95), 1),
    }
    print(json.dumps(figures, indent=1))
    return 0


def _text(seed: int, words: int) -> str:
    return f"{seed} " + " ".join(WORDS[(seed * 7 + turn * (1 + seed % 5)) % len(WORDS)] for turn in range(words))


def _timed(work: object) -> float:
    assert callable(work)
    begun = time.perf_counter()
    work()
    return (time.perf_counter() - begun) * 1000
