"""Leaves one usage row for each answer of an upstream."""

from typing import Any

import orjson

from proxy.gateway.exchange import Exchange
from proxy.gateway.relay import Relayed
from tenants.facts import Caller
from tenants.ledger import USAGE, UsageRecord


def book(exchange: Exchange, caller: Caller, relayed: Relayed, *, parsed: Any, knowledge_tokens: int) -> None:
    """Put the row of a finished exchange into the queue; nothing for one that upstream never answered."""
    if relayed.status is None:
        return
    usage = relayed.usage
    first = exchange.first_byte_at
    USAGE.put(
        UsageRecord(
            tenant_id=caller.tenant.id,
            request_id=exchange.request_id,
            key_public_id=caller.public_id,
            team=caller.team,
            status=relayed.status,
            x_cache=exchange.x_cache,
            model=usage.model or _model(parsed),
            session_id=_session(exchange, parsed),
            outcome=relayed.outcome,
            input_tokens=usage.input,
            output_tokens=usage.output,
            cache_write_5m_tokens=usage.cache_write_5m,
            cache_write_1h_tokens=usage.cache_write_1h,
            cache_read_tokens=usage.cache_read,
            server_tool_use=usage.server_tool_use,
            knowledge_tokens=knowledge_tokens,
            upstream_ms=(relayed.ended_at - relayed.asked_at) * 1000,
            total_ms=exchange.milliseconds(),
            ttfb_ms=None if first is None else (first - exchange.began) * 1000,
            overhead_ms=exchange.overhead_ms,
        )
    )


def _model(parsed: Any) -> str:
    model = parsed.get("model") if isinstance(parsed, dict) else None
    return _plain(model) if isinstance(model, str) else ""


def _session(exchange: Exchange, parsed: Any) -> str:
    """The client's session: its header, else what `metadata.user_id` says (a JSON object in a string)."""
    named = exchange.headers.get("x-claude-code-session-id", "")
    if named or not isinstance(parsed, dict) or not isinstance(parsed.get("metadata"), dict):
        return _plain(named)
    try:
        facts = orjson.loads(str(parsed["metadata"].get("user_id")))
    except ValueError:
        return ""
    return _plain(str(facts.get("session_id") or "")) if isinstance(facts, dict) else ""


def _plain(text: str) -> str:
    """Text that PostgreSQL takes."""
    return text.replace("\0", "").encode("utf-8", "replace").decode()
