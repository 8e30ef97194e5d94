"""Gives a request the knowledge that belongs to it: what its session was given before, and what its
question finds.
"""

import asyncio
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import structlog
from django.utils import timezone

from proxy.gateway import memory
from proxy.gateway.block import Block, compose
from proxy.gateway.classify import Classified, Question, classify
from proxy.gateway.counters import LOOKUPS, REQUESTS
from proxy.gateway.lookup import Lookup
from proxy.gateway.memory import MEMORY, Remembered, Slot, slot_of
from proxy.gateway.splice import BeforeBlock, CannotSplice, append_to_system, splice
from proxy.gateway.threads import SEARCHES, SMALL, beside
from proxy.gateway.wishes import Wishes, sender, wishes
from tenants.facts import Caller, TenantFacts

_WITH_KNOWLEDGE: Final = ("question", "tool_turn", "compaction")

log = structlog.get_logger(__name__)
_writes: set[asyncio.Task[None]] = set()


@dataclass(frozen=True, slots=True)
class Enriched:
    """A request as it goes upstream, and what to say about it: X-Cache, quoted chunk ids, tokens of all
    blocks.
    """

    body: bytes
    x_cache: str = "BYPASS"
    chunks: tuple[str, ...] = ()
    tokens: int = 0


@dataclass(frozen=True, slots=True)
class _Asked:
    """A question and the slot of its block."""

    question: Question
    slot: Slot


@dataclass(frozen=True, slots=True)
class _Placed:
    """A block and the question it belongs to."""

    question: Question
    block: Block


async def enrich(
    caller: Caller, body: bytes, parsed: Any, headers: Mapping[str, str], *, remember: bool = True
) -> Enriched:
    """Return the request with its knowledge; it is unchanged where there is none, or none in time.

    `parsed` is the parsed body, `headers` have lower-case names. Without `remember` nothing is kept of it.
    """
    wished = wishes(caller, headers)
    classified, earlier, own = await beside(len(body), _read, caller, parsed, headers, wished)
    REQUESTS.labels(classified.kind).inc()
    if wished.placement == "off" or classified.kind not in _WITH_KNOWLEDGE:
        return Enriched(body)
    known = MEMORY.known([asked.slot for asked in (*earlier, *([own] if own else []))])
    lookup = _lookup(caller.tenant, classified, wished, earlier, own, known)
    if lookup.is_needed:
        await _within_deadline(lookup)
    given = {**known, **lookup.recalled}
    before = [_Placed(asked.question, r.block) for asked in earlier if (r := given.get(asked.slot)) is not None]
    block = _new_block(caller.tenant, lookup, wished, before)
    if remember:
        _keep(lookup, block)
    looked_up = _was_looked_up(lookup, wished)
    return await beside(len(body), _written, body, classified, wished, before, block, looked_up=looked_up)


def _read(
    caller: Caller, parsed: Any, headers: Mapping[str, str], wished: Wishes
) -> tuple[Classified, list[_Asked], _Asked | None]:
    """Return what a request is, its earlier questions, and the one it asks."""
    classified = classify(parsed, sender(headers), subagents=caller.subagent_knowledge)
    if wished.placement == "off" or classified.kind not in _WITH_KNOWLEDGE:
        return classified, [], None
    earlier = [_Asked(q, slot_of(caller, q, wished)) for q in classified.earlier]
    own = _Asked(classified.question, slot_of(caller, classified.question, wished)) if classified.question else None
    return classified, earlier, own


def _lookup(
    tenant: TenantFacts,
    classified: Classified,
    wished: Wishes,
    earlier: Sequence[_Asked],
    own: _Asked | None,
    known: Mapping[Slot, Remembered | None],
) -> Lookup:
    missing = [asked.slot for asked in earlier if asked.slot not in known]
    if own and own.slot not in known:
        missing.append(own.slot)
    text = classified.search_text
    return Lookup(
        tenant=tenant,
        missing=missing,
        own=own.slot if own and text else None,
        remembered=known.get(own.slot) if own else None,
        text=text,
        filter=wished.filter,
        top_k=wished.top_k,
        deadline=time.monotonic() + tenant.search_deadline_ms / 1000,
    )


async def _within_deadline(lookup: Lookup) -> None:
    job = SEARCHES.submit(lookup.run)
    await asyncio.wait([asyncio.wrap_future(job)], timeout=max(0.0, lookup.deadline - time.monotonic()))
    if not job.done():
        lookup.abandoned = True
        job.cancel()  # if it hasn't begun
    LOOKUPS.labels(_result(lookup)).inc()


def _result(lookup: Lookup) -> str:
    if lookup.failed:
        return "failed"
    if lookup.abandoned:
        return "late"
    if lookup.own is None:
        return "recalled"
    if lookup.reused:
        return "reused"
    return "found" if lookup.found and lookup.found.evidence >= lookup.tenant.gate else "nothing"


def _was_looked_up(lookup: Lookup, wished: Wishes) -> bool:
    """Whether the question has an answer, be it "nothing": a filter that matches no page has one without
    a search.
    """
    return lookup.found is not None or (lookup.own is not None and wished.filter is None)


def _new_block(tenant: TenantFacts, lookup: Lookup, wished: Wishes, before: Sequence[_Placed]) -> Block | None:
    """Return the block of the question in the last message."""
    if lookup.abandoned:
        return None
    if lookup.reused:
        return lookup.reused.block
    found = lookup.found
    if found is None or found.evidence < tenant.gate:
        return None
    hits = [hit for hit in found.hits if hit.evidence >= tenant.gate / 2]
    spent = sum(placed.block.tokens for placed in before)
    given = _quoted(before) if wished.placement == "message" else frozenset[str]()
    tokens = min(tenant.tokens_per_question, tenant.tokens_per_session - spent)
    return compose(hits, tokens=tokens, most=wished.top_k, given=given)


def _quoted(before: Sequence[_Placed]) -> frozenset[str]:
    quoted = [chunk for placed in before for chunk in placed.block.chunks]
    return frozenset({chunk.chunk_id for chunk in quoted} | {chunk.content_hash for chunk in quoted})


def _keep(lookup: Lookup, block: Block | None) -> None:
    """Remember what was read and what is new; the table is written beside the request."""
    MEMORY.keep(lookup.recalled)
    if lookup.own is None or lookup.reused or lookup.found is None or lookup.abandoned:
        return
    remembered = Remembered(block, timezone.now()) if block else None
    MEMORY.keep({lookup.own: remembered})
    if remembered:
        task = asyncio.create_task(_write(lookup.own, remembered))
        _writes.add(task)
        task.add_done_callback(_writes.discard)


async def _write(slot: Slot, remembered: Remembered) -> None:
    try:
        await SMALL.run(memory.write, slot, remembered)
    except Exception as error:  # the block is still remembered in this process
        log.warning("a knowledge block was not written", error=type(error).__name__)


async def finish_writing() -> None:
    """Wait until every block is in the table; for shutdown."""
    while _writes:
        await asyncio.wait(set(_writes))


def _written(
    body: bytes,
    classified: Classified,
    wished: Wishes,
    before: Sequence[_Placed],
    block: Block | None,
    *,
    looked_up: bool,
) -> Enriched:
    """Return the body with the blocks that the placement asks for."""
    new = [_Placed(classified.question, block)] if block and classified.question else []
    placed = _chosen(classified, wished, before, new)
    try:
        changed = _placed_in(body, wished, placed)
    except CannotSplice as why:
        log.warning("a body has no place for its block", why=str(why))
        return Enriched(body)
    if not placed:
        return Enriched(body, "MISS" if looked_up else "BYPASS")
    chunks = dict.fromkeys(c.chunk_id for p in reversed(placed) for c in p.block.chunks)
    return Enriched(changed, "KNOWLEDGE-RAG", tuple(chunks), sum(p.block.tokens for p in placed))


def _chosen(classified: Classified, wished: Wishes, before: Sequence[_Placed], new: list[_Placed]) -> list[_Placed]:
    if wished.placement == "message":
        return [*before, *new]
    if wished.placement == "system" and classified.question is None:
        # Within the turn of one question its block stays, so that the system prompt stays the same.
        return [p for p in before if p.question is classified.earlier[-1]]
    return new


def _placed_in(body: bytes, wished: Wishes, placed: Sequence[_Placed]) -> bytes:
    if not placed:
        return body
    if wished.placement == "system":
        return append_to_system(body, placed[-1].block.text)
    return splice(body, [BeforeBlock(p.question.message, p.question.block, p.block.text) for p in placed])
