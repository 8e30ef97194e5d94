"""What the gateway adds: time to the first byte of a stream, direct, with knowledge off, and with knowledge on.

The upstream is the stand-in on loopback, so that what is measured is ours. The three ways take turns in one run: read
their ratios and differences, not their milliseconds.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import time
from dataclasses import dataclass
from typing import Any

import aiohttp

from bench.product import Product, percentile

TOPICS = ("relay", "valve", "ledger", "beacon", "turbine", "archive", "harbour", "lantern", "bridge", "orchard")
HEADERS = {"anthropic-version": "2023-06-01", "user-agent": "claude-cli/2.0 (bench)", "x-app": "cli"}


@dataclass(frozen=True)
class Way:
    """One way to the upstream: where the request goes and with which headers."""

    name: str
    url: str
    headers: dict[str, str]


def main(arguments: list[str]) -> int:
    """Run the rounds and print the figures as JSON."""
    parser = argparse.ArgumentParser(prog="python -m bench gateway", description=__doc__)
    parser.add_argument("--rounds", type=int, default=60, help="requests each way")
    parser.add_argument("--clients", type=int, default=1, help="requests at the same time")
    parser.add_argument("--pages", type=int, default=200, help="pages in the tenant")
    options = parser.parse_args(arguments)
    with Product() as product:
        key = product.fresh_key()
        _fill(product, key, options.pages)
        figures = asyncio.run(_measure(_ways(product, key), options))
    print(json.dumps(figures, indent=1))
    return 0


def _fill(product: Product, key: str, pages: int) -> None:
    rows = [_page(number) for number in range(pages)]
    for start in range(0, pages, 20):
        product.call("POST", "/knowledge/ingest", key, {"chunks": rows[start : start + 20]})


def _page(number: int) -> dict[str, Any]:
    topic = TOPICS[number % 10]
    text = f"The {topic} number {number} listens on port {20_000 + number} and is drained at night."
    return {"file_path": f"ops/{topic}-{number}.md", "chunk_index": 0, "content": text}


def _ways(product: Product, key: str) -> list[Way]:
    ours = {**HEADERS, "x-api-key": key}
    return [
        Way("direct", f"{product.upstream_url}/v1/messages?beta=true", {**HEADERS, "x-api-key": "sk-ant-demo"}),
        Way("off", f"{product.base_url}/v1/messages?beta=true", {**ours, "x-kb-knowledge": "off"}),
        Way("on", f"{product.base_url}/v1/messages?beta=true", ours),
    ]


async def _measure(ways: list[Way], options: argparse.Namespace) -> dict[str, Any]:
    times: dict[str, list[float]] = {way.name: [] for way in ways}
    caches: dict[str, set[str]] = {way.name: set() for way in ways}
    async with aiohttp.ClientSession() as session:
        for number in range(5 + options.rounds // options.clients):
            for way in ways:
                batch = [_first_byte(session, way, number * options.clients + turn) for turn in range(options.clients)]
                for milliseconds, cache in await asyncio.gather(*batch):
                    if number >= 5:  # the first rounds fill pools and caches
                        times[way.name].append(milliseconds)
                        caches[way.name].add(cache)
    return {
        "clients": options.clients,
        "requests": {name: len(values) for name, values in times.items()},
        "ttfb_ms_p50": {name: round(percentile(values, 0.5), 2) for name, values in times.items()},
        "ttfb_ms_p95": {name: round(percentile(values, 0.95), 2) for name, values in times.items()},
        "added_ms_p50": {
            name: round(percentile(times[name], 0.5) - percentile(times["direct"], 0.5), 2) for name in ("off", "on")
        },
        "x_cache": {name: sorted(values) for name, values in caches.items()},
    }


async def _first_byte(session: aiohttp.ClientSession, way: Way, number: int) -> tuple[float, str]:
    headers = {
        **way.headers,
        "content-type": "application/json",
        "x-claude-code-session-id": f"bench-{way.name}-{number}",
    }
    begun = time.perf_counter()
    async with session.post(way.url, data=_body(number), headers=headers) as response:
        await response.content.readany()
        milliseconds = (time.perf_counter() - begun) * 1000
        await response.read()
        if response.status != 200:
            raise SystemExit(f"{way.name} answered {response.status}")
        return milliseconds, response.headers.get("x-cache", "")


def _body(number: int) -> bytes:
    """Return a request of a coding client's shape and size (about 50 kB)."""
    tool = {"name": "Read", "description": "Reads a file. " * 60, "input_schema": {"type": "object", "properties": {}}}
    question = f"On which port does the {TOPICS[number % 10]} number {number % 200} listen, and when is it drained?"
    body = {
        "model": "claude-bench",
        "max_tokens": 1000,
        "stream": True,
        "system": [{"type": "text", "text": "You help with programming. " * 400}],
        "tools": [tool | {"name": f"Tool{turn}"} for turn in range(40)],
        "messages": [{"role": "user", "content": [{"type": "text", "text": question}]}],
    }
    return json.dumps(body).encode()
