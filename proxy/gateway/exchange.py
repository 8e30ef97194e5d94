"""One request and its answer on the ASGI wire: reading the body within its limit, answering, refusing."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from typing import Any

from django.conf import settings

from proxy.errors import ApiError, TooLarge, body_of, headers_of, new_request_id

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
RawHeaders = list[tuple[bytes, bytes]]


class ClientLeft(Exception):
    """The client closed the connection before its request was complete."""


class Exchange:
    """A request being answered. What is set on it (`x_cache`, `chunks`) is said in the answer's headers."""

    def __init__(self, scope: Message, receive: Receive, send: Send) -> None:
        self.raw_headers: RawHeaders = [(bytes(k).lower(), bytes(v)) for k, v in scope["headers"]]
        self.headers = _joined(self.raw_headers)
        self.method: str = scope["method"]
        self.query: bytes = scope.get("query_string", b"")
        self.request_id = new_request_id()
        self.x_cache = "BYPASS"
        self.chunks: tuple[str, ...] = ()
        self.answering = False
        self.first_byte_at: float | None = None
        self.began = time.perf_counter()
        self._reading = 0.0
        self._overhead: float | None = None
        self._receive, self._send = receive, send

    @property
    def overhead_ms(self) -> float:
        """Milliseconds that we added: until `going_upstream`, without the time the client took to send
        its body.
        """
        spent = self._overhead if self._overhead is not None else self._spent()
        return max(0.0, spent * 1000)

    def going_upstream(self) -> None:
        """Stop the clock of our own work."""
        self._overhead = self._spent()

    def milliseconds(self) -> float:
        """Return how long the exchange has lasted."""
        return (time.perf_counter() - self.began) * 1000

    async def body(self) -> bytes:
        """Read the request's body; raises TooLarge, without reading on, and ClientLeft."""
        limit = int(settings.KB_MAX_BODY_BYTES)
        length = self.headers.get("content-length", "")
        if length.isdigit() and int(length) > limit:
            raise _too_large(limit)
        began, parts, size = time.perf_counter(), [], 0
        while True:
            message = await self._receive()
            if message["type"] == "http.disconnect":
                raise ClientLeft
            parts.append(message.get("body", b""))
            size += len(parts[-1])
            if size > limit:
                raise _too_large(limit)
            if not message.get("more_body", False):
                break
        self._reading += time.perf_counter() - began
        return parts[0] if len(parts) == 1 else b"".join(parts)

    async def gone(self) -> None:
        """Return when the client has closed the connection."""
        while (await self._receive())["type"] != "http.disconnect":
            pass

    async def start(self, status: int, headers: Iterable[tuple[bytes, bytes]]) -> None:
        """Send status and headers, ours included."""
        self.answering = True
        await self._send({"type": "http.response.start", "status": status, "headers": [*headers, *self._our_headers()]})

    async def write(self, data: bytes, *, more: bool) -> None:
        """Send a piece of the answer at once."""
        if data and self.first_byte_at is None:
            self.first_byte_at = time.perf_counter()
        await self._send({"type": "http.response.body", "body": data, "more_body": more})

    async def answer(self, status: int, body: bytes, headers: Iterable[tuple[str, str]] = ()) -> None:
        """Send a whole answer of our own."""
        raw = [(name.encode("latin-1"), value.encode("latin-1", "replace")) for name, value in headers]
        await self.start(status, [*raw, (b"content-length", str(len(body)).encode())])
        await self.write(b"" if self.method == "HEAD" else body, more=False)

    async def refuse(self, error: ApiError) -> None:
        """Send an error of ours, if nothing has been sent yet."""
        if self.answering:
            return
        named = [*headers_of(error), ("request-id", self.request_id)]
        await self.answer(error.status, body_of(error, self.request_id), named)

    def _spent(self) -> float:
        return time.perf_counter() - self.began - self._reading

    def _our_headers(self) -> RawHeaders:
        ours = [
            (b"x-cache", self.x_cache.encode()),
            (b"x-kb-request-id", self.request_id.encode()),
            (b"x-kb-overhead-ms", f"{self.overhead_ms:.1f}".encode()),
        ]
        return [*ours, (b"x-kb-chunks", ",".join(self.chunks).encode())] if self.chunks else ours


async def first_of(work: asyncio.Task[Any], exchange: Exchange) -> bool:
    """Wait until the work is done or the client has left, which cancels it. Return whether the client
    stayed.
    """
    leaving = asyncio.create_task(exchange.gone())
    try:
        await asyncio.wait({work, leaving}, return_when=asyncio.FIRST_COMPLETED)
        stayed = work.done()
    finally:
        leaving.cancel()
        if not work.done():
            work.cancel()
        await asyncio.gather(work, leaving, return_exceptions=True)
    return stayed


def _too_large(limit: int) -> TooLarge:
    return TooLarge(f"The request body is larger than {limit // 1024 / 1024:g} MiB. Send less.")


def _joined(headers: RawHeaders) -> dict[str, str]:
    found: dict[str, str] = {}
    for name, value in headers:
        key, text = name.decode("latin-1"), _text(value)
        found[key] = f"{found[key]}, {text}" if key in found else text
    return found


def _text(value: bytes) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError:
        return value.decode("latin-1")
