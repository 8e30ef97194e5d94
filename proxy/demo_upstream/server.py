"""The stand-in's HTTP side: the paths of the Messages API, and those that script and show it."""

import asyncio
import base64
import itertools
import json
import time
from dataclasses import dataclass
from typing import Any

from aiohttp import web

from .answering import content_for, error_of, events_of, message_of, written
from .prompt_cache import PromptCache, TooManyMarkers
from .script import BadScript, Behaviour, Script

Json = dict[str, Any]
LARGEST_BODY = 64 << 20
MODELS = [
    {"type": "model", "id": name, "display_name": shown, "created_at": "2026-01-01T00:00:00Z"}
    for name, shown in (
        ("claude-opus-4-5-20251101", "Opus (stand-in)"),
        ("claude-sonnet-4-5-20250929", "Sonnet (stand-in)"),
        ("claude-haiku-4-5-20251001", "Haiku (stand-in)"),
    )
]


class Refused(Exception):
    """The request is answered with an error."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status, self.message = status, message


@dataclass
class Entry:
    """One request as it arrived, and what became of it. `usage` is what was reported, `produced` what was
    made.
    """

    method: str
    path: str
    query: str
    headers: list[tuple[str, str]]
    body: bytes
    status: int | None = None
    usage: Json | None = None
    produced: int = 0
    finished: bool = False
    client_left: bool = False

    def shown(self) -> Json:
        """Return the entry as `GET /_demo/log` gives it."""
        facts = {name: value for name, value in vars(self).items() if name != "body"}
        return {**facts, "body": base64.b64encode(self.body).decode()}


class DemoUpstream:
    """The stand-in's state: its script, its prompt cache, the requests it received, and a clock that can
    be moved on.
    """

    def __init__(self) -> None:
        self.script = Script()
        self.entries: list[Entry] = []
        self._ahead = 0.0
        self.cache = PromptCache(lambda: time.monotonic() + self._ahead)
        self._numbers = itertools.count(1)

    def app(self) -> web.Application:
        """Return the application."""
        app = web.Application(client_max_size=LARGEST_BODY)
        app.router.add_post("/_demo/script", self._take_script)
        app.router.add_get("/_demo/log", self._show_log)
        app.router.add_delete("/_demo/log", self._clear_log)
        app.router.add_get("/_demo/health", _health)
        app.router.add_route("*", "/{path:.*}", self._any)
        return app

    # ------------------------------------------------------------------ for those who script it
    async def _take_script(self, request: web.Request) -> web.Response:
        try:
            order = await request.json()
            self.script.read(order)
        except (BadScript, ValueError) as why:
            return web.json_response({"error": str(why)}, status=400)
        if isinstance(order, dict):
            self._ahead += float(order.get("advance_seconds", 0))
            if order.get("reset"):
                self.cache.clear()
                self.entries.clear()
        return web.json_response({"ok": True})

    async def _show_log(self, request: web.Request) -> web.Response:
        return web.json_response([entry.shown() for entry in self.entries])

    async def _clear_log(self, request: web.Request) -> web.Response:
        self.entries.clear()
        return web.json_response({"ok": True})

    # ------------------------------------------------------------------ the Messages API
    async def _any(self, request: web.Request) -> web.StreamResponse:
        entry = Entry(
            request.method,
            request.rel_url.raw_path,
            request.rel_url.raw_query_string,
            [(name.decode("latin-1"), value.decode("latin-1")) for name, value in request.raw_headers],
            await request.read(),
        )
        self.entries.append(entry)
        try:
            answer = await self._route(request, entry)
        except Refused as refused:
            answer = self._error(refused.status, refused.message)
        except (asyncio.CancelledError, ConnectionError):
            entry.client_left = True
            raise
        entry.status, entry.finished = answer.status, True
        return answer

    async def _route(self, request: web.Request, entry: Entry) -> web.StreamResponse:
        _, found, rest = entry.path.rpartition("/v1/")
        if not found:
            return web.Response(status=200 if request.method == "HEAD" else 404)
        if _credential(request) == "":
            raise Refused(401, "x-api-key header is required")
        if rest == "messages" and request.method == "POST":
            return await self._message(request, entry)
        if rest == "messages/count_tokens" and request.method == "POST":
            counted = self.cache.count(_parsed(entry.body), credential="", keep=False)
            return web.json_response({"input_tokens": counted.total}, headers=self._headers())
        if rest == "models":
            ends = {"first_id": MODELS[0]["id"], "last_id": MODELS[-1]["id"], "has_more": False}
            return web.json_response({"data": MODELS, **ends}, headers=self._headers())
        for model in MODELS:
            if rest == f"models/{model['id']}":
                return web.json_response(model, headers=self._headers())
        raise Refused(404, "Not Found")

    async def _message(self, request: web.Request, entry: Entry) -> web.StreamResponse:
        behaviour = self.script.take(entry.body.decode("utf-8", "replace"))
        await asyncio.sleep(behaviour.delay)
        if behaviour.kind == "cut" and behaviour.after < 0:
            _hang_up(request)
        if behaviour.kind == "error":
            return self._scripted_error(behaviour)
        body = _parsed(entry.body)
        try:
            counted = self.cache.count(body, credential=_credential(request))
        except TooManyMarkers as why:
            raise Refused(400, str(why)) from why
        number = next(self._numbers)
        message = message_of(body, behaviour, content_for(behaviour, body, number), counted.usage(), number)
        if body.get("stream"):
            return await self._stream(request, entry, behaviour, message)
        await asyncio.sleep(behaviour.first_delay)
        entry.usage, entry.produced = message["usage"], message["usage"]["output_tokens"]
        return web.json_response(message, headers={**self._headers(), **behaviour.headers})

    async def _stream(
        self, request: web.Request, entry: Entry, behaviour: Behaviour, message: Json
    ) -> web.StreamResponse:
        answer = web.StreamResponse(headers={**self._headers(), **behaviour.headers})
        answer.headers["content-type"] = "text/event-stream; charset=utf-8"
        answer.headers["cache-control"] = "no-cache"
        await answer.prepare(request)
        entry.status = 200
        await asyncio.sleep(behaviour.first_delay)
        for count, (name, data, made) in enumerate(events_of(message, behaviour)):
            if behaviour.kind in ("stream_error", "cut") and count >= behaviour.after:
                await self._break(request, answer, behaviour)
                break
            await answer.write(written(name, data))
            _note(entry, name, data, made)
            await asyncio.sleep(behaviour.gap)
        await answer.write_eof()
        return answer

    async def _break(self, request: web.Request, answer: web.StreamResponse, behaviour: Behaviour) -> None:
        if behaviour.kind == "cut":
            await answer.write(b'event: content_block_delta\ndata: {"type":"content_bl')
            await asyncio.sleep(0.02)  # lets what was written leave before the connection goes
            _hang_up(request)
        error = {"type": behaviour.type or "overloaded_error", "message": behaviour.message}
        await answer.write(written("error", {"type": "error", "error": error}))

    def _scripted_error(self, behaviour: Behaviour) -> web.Response:
        if behaviour.body is not None:
            headers = {"content-type": "application/json", **self._headers(), **behaviour.headers}
            return web.Response(status=behaviour.status, body=behaviour.body.encode(), headers=headers)
        return self._error(behaviour.status, behaviour.message, behaviour.type, behaviour.headers)

    def _error(self, status: int, message: str, kind: str = "", more: dict[str, str] | None = None) -> web.Response:
        headers = self._headers()
        value = error_of(status, message, kind, headers["request-id"])
        return web.json_response(value, status=status, headers={**headers, **(more or {})})

    def _headers(self) -> dict[str, str]:
        return {
            "request-id": f"req_demo{next(self._numbers):012d}",
            "anthropic-organization-id": "00000000-0000-4000-8000-000000000000",
            "anthropic-ratelimit-requests-limit": "4000",
            "anthropic-ratelimit-requests-remaining": "3999",
        }


async def _health(request: web.Request) -> web.Response:
    return web.Response(text="ok")


def _note(entry: Entry, name: str, data: Json | None, made: int) -> None:
    """Keep what has been reported and made, for those who compare bills."""
    entry.produced = made
    if name == "message_start" and data:
        entry.usage = data["message"]["usage"]
    elif name == "message_delta" and data:
        entry.usage = {**(entry.usage or {}), **data["usage"]}


def _credential(request: web.Request) -> str:
    return request.headers.get("x-api-key") or request.headers.get("authorization") or ""


def _parsed(data: bytes) -> Json:
    try:
        body = json.loads(data)
    except (ValueError, RecursionError) as why:
        raise Refused(400, f"The request body is not valid JSON: {why}") from why
    if not isinstance(body, dict) or not isinstance(body.get("messages"), list):
        raise Refused(400, "messages: Field required")
    if not all(isinstance(message, dict) for message in body["messages"]):
        raise Refused(400, "messages: Input should be objects")
    return body


def _hang_up(request: web.Request) -> None:
    """Cut the connection without a proper end."""
    if request.transport is not None:
        request.transport.abort()
    raise ConnectionResetError("cut by script")
