"""The gateway's ASGI callable: one request from its key to its usage row.

Order: key, scope, upstream credential, body, model, then knowledge (within its deadline), upstream, relay,
usage row.
"""

import asyncio
import json
from typing import Any, Final

import orjson
import structlog

from proxy.callers import Credentials, admit, credentials
from proxy.errors import ApiError, Failure, InvalidRequest, NoPermission, NotFound
from proxy.gateway.booking import book
from proxy.gateway.enrich import Enriched, enrich
from proxy.gateway.exchange import ClientLeft, Exchange, Message, Receive, Send, first_of
from proxy.gateway.models import serve_models
from proxy.gateway.paths import Route, route
from proxy.gateway.relay import Relayed, relay
from proxy.gateway.splice import CannotSplice, has_doubled
from proxy.gateway.threads import SMALL, beside
from proxy.gateway.upstream import Call, Target, forwarded, target_of
from tenants.callers import Miss, cached_caller, peek
from tenants.facts import Caller

SCOPE: Final = "messages"
_METHODS: Final = {"messages": "POST", "count_tokens": "POST", "models": "GET", "model": "GET"}
_LIMITS_BY_MODEL: Final = ("tokens_per_minute", "money_per_day", "money_per_month")

log = structlog.get_logger(__name__)


def route_of(scope: Message) -> Route | None:
    """Return what an HTTP scope asks of the gateway, None when it is for somebody else."""
    raw = scope.get("raw_path")
    path = raw.decode("latin-1") if isinstance(raw, bytes) and raw else scope["path"]
    return route(scope["method"], path.partition("?")[0])


async def gateway(asked: Route, scope: Message, receive: Receive, send: Send) -> None:
    """Answer one request that `route_of` gave to the gateway."""
    exchange = Exchange(scope, receive, send)
    try:
        await _answer(exchange, asked)
    except ApiError as error:
        await exchange.refuse(error)
    except ClientLeft:
        return
    except Exception:
        log.exception("the gateway failed", request_id=exchange.request_id)
        await exchange.refuse(Failure("The gateway failed at this request. Try again."))


async def _answer(exchange: Exchange, asked: Route) -> None:
    if asked.kind == "liveness":
        await exchange.answer(200, b"ok", [("content-type", "text/plain; charset=utf-8")])
        return
    shown = credentials(exchange.raw_headers)
    caller = admit(await _caller(shown), slug=asked.slug, scope=SCOPE)
    if asked.kind in ("batches", "files", "unknown"):
        raise NotFound(f"There is no {asked.path} here.")
    if exchange.method != _METHODS[asked.kind]:
        raise _wrong_method(_METHODS[asked.kind], asked)
    target = target_of(caller.tenant, shown.foreign)
    if asked.kind in ("models", "model"):
        await serve_models(exchange, asked, caller, target)
    else:
        await _message(exchange, asked, caller, target)


async def _caller(shown: Credentials) -> Caller | None:
    if shown.ours is None:
        return None
    found = peek(shown.ours)
    if not isinstance(found, Miss):
        return found
    try:
        return await SMALL.run(cached_caller, shown.ours)
    except Exception as error:
        log.warning("a key can't be looked up", error=type(error).__name__)
        raise Failure("The key can't be checked at the moment. Try again.", status=503) from error


async def _message(exchange: Exchange, asked: Route, caller: Caller, target: Target) -> None:
    body = await exchange.body()
    parsed = parse(body)
    await beside(len(body), check_model, caller, body, parsed)
    counting = asked.kind == "count_tokens"
    sent = await _with_knowledge(caller, body, parsed, exchange, remember=not counting)
    exchange.x_cache, exchange.chunks = sent.x_cache, sent.chunks
    headers = forwarded(exchange.raw_headers, target.credential)
    call = Call("POST", target.url(asked.path, exchange.query), headers, sent.body)
    relayed = Relayed()
    try:
        await _relayed(exchange, call, target, relayed)
    finally:
        if not counting:
            book(exchange, caller, relayed, parsed=parsed, knowledge_tokens=sent.tokens)


async def _relayed(exchange: Exchange, call: Call, target: Target, relayed: Relayed) -> None:
    """Relay until it is done or the client has left, which closes the connection to upstream."""
    work = asyncio.create_task(relay(exchange, call, retries=target.retries, relayed=relayed))
    if await first_of(work, exchange) and (error := work.exception()):
        raise error


async def _with_knowledge(caller: Caller, body: bytes, parsed: Any, exchange: Exchange, *, remember: bool) -> Enriched:
    """Return the request with its knowledge. Knowledge never stands in a request's way, not even when it
    breaks.
    """
    try:
        return await enrich(caller, body, parsed, exchange.headers, remember=remember)
    except Exception:
        log.exception("knowledge failed", request_id=exchange.request_id)
        return Enriched(body)


def parse(body: bytes) -> Any:
    """Return the parsed body, None when it is no JSON. It is only read, never written again."""
    try:
        return orjson.loads(body)
    except orjson.JSONDecodeError:
        pass
    try:  # what orjson is too strict for: lone surrogates
        return json.loads(body.decode())
    except (ValueError, RecursionError):
        return None


def check_model(caller: Caller, body: bytes, parsed: Any) -> None:
    """Raise NoPermission when the key may not use the request's model.

    Where it matters which model it is, a body whose single model can't be told is refused: upstream might
    read another one from it than we do.
    """
    if not caller.models and not any(name in caller.limits for name in _LIMITS_BY_MODEL):
        return
    model = parsed.get("model") if isinstance(parsed, dict) else None
    try:
        doubled = isinstance(parsed, dict) and has_doubled(body, "model")
    except CannotSplice:
        doubled = True
    if not isinstance(model, str) or doubled:
        raise NoPermission(
            "This key is limited by model, and the request's one `model` can't be read. Send valid JSON."
        )
    if caller.models and model not in caller.models:
        raise NoPermission(f"This key may not use the model {model}. It may use: {', '.join(caller.models)}.")


def _wrong_method(allowed: str, asked: Route) -> ApiError:
    error = InvalidRequest(f"{asked.path} takes {allowed} only.", headers=[("allow", allowed)])
    error.status = 405
    return error
