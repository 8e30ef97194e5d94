"""A body over the limit is never read to its end: not into memory, not into a file.

Django reads a body whole before anything of ours runs. So this sits in front of it: past the limit it
hands on an empty body and a mark, and the door refuses with 413 after it has looked at the key. What the
client still sends is discarded by the server, so that the client can finish and read the answer.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from django.conf import settings
from django.http import HttpRequest

from proxy.api.paths import machine_path
from proxy.errors import TooLarge

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Application = Callable[[Scope, Receive, Send], Awaitable[None]]
_MARK = "kbplatform.body_too_large"


class BodyLimit:
    """An ASGI application that keeps bodies over KB_MAX_BODY_BYTES from the one behind it, on machine paths."""

    def __init__(self, application: Application) -> None:
        self.application = application

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, its body cut off where it passes the limit."""
        if scope["type"] != "http" or machine_path(scope["path"]) is None:
            await self.application(scope, receive, send)
            return
        marked = dict(scope)
        await self.application(marked, _limited(marked, receive), send)


def is_too_large(request: HttpRequest) -> bool:
    """Return whether a request's body is over the limit, by its header or by what has come of it."""
    scope: Scope = getattr(request, "scope", {})
    declared = str(request.META.get("CONTENT_LENGTH") or "0")
    return bool(scope.get(_MARK)) or (declared.isdecimal() and int(declared) > _limit())


def too_large() -> TooLarge:
    """Return the refusal of a body over the limit."""
    return TooLarge(f"The body is larger than {_limit():,} bytes (KB_MAX_BODY_BYTES); send it in parts.")


def _limit() -> int:
    return int(settings.KB_MAX_BODY_BYTES)


def _limited(scope: Scope, receive: Receive) -> Receive:
    left = _limit()
    declared = next((value for name, value in scope["headers"] if name == b"content-length"), b"0")
    over = declared.isdigit() and int(declared) > left

    async def limited() -> Message:
        nonlocal left, over
        if scope.get(_MARK):
            # The answer comes without waiting for more; only its end ends this wait.
            await asyncio.Event().wait()
        if not over:
            message = await receive()
            left -= len(message.get("body", b""))
            over = left < 0
            if not over:
                return message
        scope[_MARK] = True
        return {"type": "http.request", "body": b"", "more_body": False}

    return limited
