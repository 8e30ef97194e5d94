"""The product as its users meet it: our ASGI application behind a real server on a real port."""

from __future__ import annotations

import http.client
import os
import socket
import subprocess
import sys
import threading
import time
import urllib.parse
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

import uvicorn

from kbplatform.asgi import application
from tests.waiting import until


@contextmanager
def serving() -> Iterator[str]:
    """Run the application in a thread and give its base URL."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        config = uvicorn.Config(
            application, log_level="critical", lifespan="on", ws="none", timeout_graceful_shutdown=5
        )
        server = uvicorn.Server(config)
        thread = threading.Thread(target=server.run, args=([listening],), daemon=True)
        thread.start()
        until(lambda: server.started)
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"
        server.should_exit = True
        thread.join(20)


@contextmanager
def serving_process(**environment: str) -> Iterator[str]:
    """Run the application in a process of its own, with further settings, and give its base URL; ends it
    with TERM.
    """
    with socket.create_server(("127.0.0.1", 0)) as listening:
        number = listening.fileno()
        command = [sys.executable, "-m", "uvicorn", "kbplatform.asgi:application", "--fd", str(number)]
        quiet = ["--lifespan", "on", "--log-level", "critical"]
        process = subprocess.Popen([*command, *quiet], pass_fds=[number], env={**os.environ, **environment})
        base = f"http://127.0.0.1:{listening.getsockname()[1]}"
        try:
            until(lambda: send(base, "GET", "/health").status == 200, seconds=60)
            yield base
        finally:
            process.terminate()
            process.wait(30)


@dataclass
class Reply:
    """An answer as it came; `arrivals` are (seconds since sending, bytes), `cut` whether it had no proper
    end.
    """

    status: int = 0
    headers: dict[str, str] = field(default_factory=dict)
    arrivals: list[tuple[float, bytes]] = field(default_factory=list)
    cut: bool = False

    @property
    def body(self) -> bytes:
        """All of the body."""
        return b"".join(data for _, data in self.arrivals)


def send(
    base: str,
    method: str,
    path: str,
    body: bytes | None = None,
    headers: Sequence[tuple[str, str]] = (),
    *,
    chunked: bool = False,
    leave_after: float | None = None,
) -> Reply:
    """Send exactly these headers and bytes. leave_after: hang up after so many seconds."""
    url, reply, began = urllib.parse.urlsplit(base), Reply(), time.perf_counter()
    connection = http.client.HTTPConnection(str(url.hostname), url.port or 80, timeout=leave_after or 30)
    try:
        connection.putrequest(method, path, skip_accept_encoding=True)
        for name, value in headers:
            connection.putheader(name, value)
        if body is not None and chunked:
            connection.putheader("transfer-encoding", "chunked")
        elif body is not None:
            connection.putheader("content-length", str(len(body)))
        pieces = iter([body[:1000], body[1000:]]) if body is not None and chunked else body
        connection.endheaders(pieces, encode_chunked=chunked)
        with connection.getresponse() as answer:
            reply.status = answer.status
            reply.headers = {name.lower(): value for name, value in answer.getheaders()}
            while data := answer.read1(65536):
                reply.arrivals.append((time.perf_counter() - began, data))
                if leave_after is not None and time.perf_counter() - began > leave_after:
                    break
            reply.cut = bool(answer.length)
    except (http.client.HTTPException, ConnectionError, TimeoutError):
        reply.cut = True
    finally:
        connection.close()
    return reply
