"""`GET /v1/models` and `/v1/models/{id}`: upstream's answers, cut to what the key may use."""

import json
from typing import Any
from urllib.parse import unquote

import aiohttp

from proxy.errors import Failure, NotFound
from proxy.gateway.exchange import Exchange
from proxy.gateway.paths import Route
from proxy.gateway.relay import Relayed, relay
from proxy.gateway.upstream import Call, Target, forwarded, open_answer
from tenants.facts import Caller


async def serve_models(exchange: Exchange, asked: Route, caller: Caller, target: Target) -> None:
    """Relay the answer; with an allow-list, a list without the other models, and 404 for one that isn't
    on it.
    """
    call = Call(
        "GET",
        target.url(asked.path, exchange.query),
        forwarded(exchange.raw_headers, target.credential),
        None,
    )
    if asked.kind == "models" and caller.models:
        await _cut_list(exchange, call, target, caller)
        return
    name = unquote(asked.path.rpartition("/")[2])
    if _leads_elsewhere(name):
        raise NotFound(f"model: {name}")
    if asked.kind == "model" and caller.models and name not in caller.models:
        raise NotFound(f"model: {name}")
    await relay(exchange, call, retries=target.retries, relayed=Relayed())


def _leads_elsewhere(name: str) -> bool:
    """Say whether an upstream that decodes and resolves paths might read a name as the way to another object.

    With the credential that tenants share, that could be the batch or the file of another tenant.
    """
    parts = unquote(name).replace("\\", "/").split("/")
    return not {".", ".."}.isdisjoint(parts)


async def _cut_list(exchange: Exchange, call: Call, target: Target, caller: Caller) -> None:
    exchange.going_upstream()
    answer = await open_answer(call, retries=target.retries)
    try:
        data = await answer.read()
    except aiohttp.ClientError as why:
        raise Failure("The upstream gave no answer. Try again.", status=502) from why
    finally:
        answer.close()
    kept = [(k, v) for k, v in answer.headers.items() if _is_kept(k)]
    await exchange.answer(answer.status, _allowed(data, caller) if answer.status == 200 else data, kept)


def _is_kept(name: str) -> bool:
    return name.lower() in ("content-type", "request-id", "retry-after") or name.lower().startswith("anthropic-")


def _allowed(data: bytes, caller: Caller) -> bytes:
    """Return the list without the models that the key may not use; what is no list is left as it is."""
    try:
        listed: Any = json.loads(data)
        models = [model for model in listed["data"] if model["id"] in caller.models]
    except (ValueError, KeyError, TypeError):
        return data
    ends = {"first_id": models[0]["id"], "last_id": models[-1]["id"]} if models else {"first_id": None, "last_id": None}
    return json.dumps({**listed, "data": models, **ends}).encode()
