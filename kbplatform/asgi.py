"""The server's front door: the gateway's requests are chosen by path before Django's own handler sees them."""

from __future__ import annotations

import asyncio
import os
import threading
from typing import Any

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "kbplatform.settings")

import structlog
from django.core.asgi import get_asgi_application

_pages: Any = get_asgi_application()  # sets Django up: what follows needs its apps

from knowledge import embedding  # noqa: E402
from proxy.api.body_limit import BodyLimit  # noqa: E402
from proxy.gateway.edge import gateway, route_of  # noqa: E402
from proxy.gateway.enrich import finish_writing  # noqa: E402
from proxy.gateway.exchange import Message, Receive, Send  # noqa: E402
from proxy.gateway.threads import SEARCHES, SMALL  # noqa: E402
from proxy.gateway.upstream import close as close_upstream  # noqa: E402
from tenants.callers import CALLERS  # noqa: E402
from tenants.ledger import USAGE  # noqa: E402

log = structlog.get_logger(__name__)
_pages = BodyLimit(_pages)


async def application(scope: Message, receive: Receive, send: Send) -> None:
    """Serve one ASGI scope."""
    if scope["type"] == "lifespan":
        await _live(receive, send)
    elif scope["type"] == "http":
        asked = route_of(scope)
        await (gateway(asked, scope, receive, send) if asked else _pages(scope, receive, send))
    else:
        await send({"type": "websocket.close", "code": 1000})  # nothing here speaks WebSocket


async def _live(receive: Receive, send: Send) -> None:
    """Follow the server from its start to its end."""
    while True:
        message = await receive()
        if message["type"] == "lifespan.startup":
            start()
            await send({"type": "lifespan.startup.complete"})
        elif message["type"] == "lifespan.shutdown":
            await stop()
            await send({"type": "lifespan.shutdown.complete"})
            return


def start() -> None:
    """Begin what the process needs besides requests; `embedding.is_ready()` tells when the model is loaded."""
    CALLERS.start()
    threading.Thread(target=_warm, name="embedding-warm-up", daemon=True).start()


async def stop() -> None:
    """Finish what requests left behind: blocks and usage rows that aren't in the database yet."""
    await finish_writing()
    await close_upstream()
    await asyncio.to_thread(_end)


def _end() -> None:
    SEARCHES.close()
    SMALL.close()
    USAGE.drain()
    CALLERS.stop()


def _warm() -> None:
    try:
        embedding.warm()
    except Exception as error:  # searches go on with their text lane, and readiness says why
        log.error("the embedding model can't be loaded", error=str(error))
