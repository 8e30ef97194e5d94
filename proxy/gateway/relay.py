"""Brings upstream's answer back as it arrives: status, headers and bytes unmodified, breaks included."""

import time
from dataclasses import dataclass, field
from typing import Final, Literal

import aiohttp

from proxy.errors import Failure
from proxy.gateway.exchange import Exchange, RawHeaders
from proxy.gateway.upstream import HOP_BY_HOP, Call, open_answer
from proxy.gateway.usage_tap import Usage, UsageTap

Outcome = Literal["complete", "error", "cut", "aborted"]

# Answered by this server itself, or of use to the next hop only.
_NOT_RELAYED: Final = HOP_BY_HOP | frozenset((b"set-cookie", b"date", b"server", b"x-cache", b"alt-svc"))


@dataclass(slots=True)
class Relayed:
    """What became of a request upstream, filled while its answer passes. `status` is None until it has one.

    outcome: "complete", "error" (an error status or an error event), "cut" (upstream broke off), "aborted"
    (the client left). Times are on the clock of `time.perf_counter`.
    """

    asked_at: float = 0.0
    ended_at: float = 0.0
    status: int | None = None
    outcome: Outcome = "aborted"
    usage: Usage = field(default_factory=Usage)


async def relay(exchange: Exchange, call: Call, *, retries: int, relayed: Relayed) -> None:
    """Send a request upstream and its answer to the client.

    `relayed` says what happened, also when this is cancelled. Raises Failure when upstream gave no answer
    at all. When upstream breaks off in the middle, the answer is left unfinished: the server then closes
    the connection without a proper end, so that the client sees the break.
    """
    relayed.asked_at = time.perf_counter()
    exchange.going_upstream()
    try:
        answer = await open_answer(call, retries=retries)
        try:
            await _pass_on(exchange, answer, relayed)
        finally:
            answer.close()  # a connection that was read to its end has gone back to the pool by itself
    finally:
        relayed.ended_at = time.perf_counter()


async def _pass_on(exchange: Exchange, answer: aiohttp.ClientResponse, relayed: Relayed) -> None:
    if 300 <= answer.status < 400:
        raise Failure("The upstream answered with a redirect, which is not followed.", status=502)
    if not 200 <= answer.status < 600:
        raise Failure(f"The upstream answered with the status {answer.status}, which HTTP doesn't know.", status=502)
    relayed.status = answer.status
    tap = UsageTap(
        content_type=answer.headers.get("content-type", ""),
        content_encoding=answer.headers.get("content-encoding", ""),
    )
    try:
        await exchange.start(answer.status, _relayed_headers(answer, streaming=tap.streaming))
        async for data in answer.content.iter_any():
            tap.feed(data)
            await exchange.write(data, more=True)
        await exchange.write(b"", more=False)
        relayed.outcome = "complete"
    except (aiohttp.ClientError, TimeoutError, OSError):
        relayed.outcome = "cut"
    finally:
        relayed.usage = tap.finish()
    if relayed.outcome == "complete" and (answer.status >= 400 or relayed.usage.error):
        relayed.outcome = "error"


def _relayed_headers(answer: aiohttp.ClientResponse, *, streaming: bool) -> RawHeaders:
    """Return upstream's headers that go to the client."""
    headers = [
        (name.lower(), value)
        for name, value in answer.raw_headers
        if name.lower() not in _NOT_RELAYED and not name.lower().startswith(b"x-kb-")
    ]
    if streaming:
        headers.append((b"x-accel-buffering", b"no"))  # tells a proxy in front to pass each piece on at once
        if not any(name == b"cache-control" for name, _ in headers):
            headers.append((b"cache-control", b"no-cache"))
    return headers
