"""A loopback embedding service for tests: speaks the OpenAI way and Voyage's, and does as a test says."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import numpy as np
from numpy.typing import NDArray


@dataclass
class Service:
    """What was asked, and what will be answered: `refusals` are (status, headers, body) given first, in order."""

    url: str = ""
    dimensions: int = 8
    questions: list[dict[str, Any]] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    refusals: list[tuple[int, dict[str, str], str]] = field(default_factory=list)
    answer: Any = None
    may_answer: threading.Event = field(default_factory=threading.Event)

    def vectors(self, question: dict[str, Any]) -> dict[str, Any]:
        size = question.get("dimensions") or question.get("output_dimension") or self.dimensions
        rows = [
            {"index": index, "object": "embedding", "embedding": vector_for(text, size).tolist()}
            for index, text in enumerate(question["input"])
        ]
        return {"object": "list", "data": rows[::-1], "model": question["model"]}


def vector_for(text: str, size: int) -> NDArray[np.float32]:
    """The vector the service gives for a text: not of unit length, and different for texts of other lengths."""
    vector = np.arange(1, size + 1, dtype=np.float32)
    vector[0] += len(text)
    return vector


@contextmanager
def embedding_service() -> Iterator[Service]:
    """A running service on a free loopback port; its `may_answer` is set, clear it to hold answers back."""
    service = Service()
    service.may_answer.set()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            service.questions.append({"path": self.path, **json.loads(body)})
            service.headers.append({name.lower(): value for name, value in self.headers.items()})
            service.may_answer.wait(10)
            answer = json.dumps(service.answer or service.vectors(service.questions[-1]))
            status, headers, text = service.refusals.pop(0) if service.refusals else (200, {}, answer)
            self.send_response(status)
            for name, value in {"content-length": str(len(text.encode())), **headers}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(text.encode())

        def log_message(self, format: str, *args: Any) -> None:
            return

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    service.url = f"http://127.0.0.1:{server.server_port}/v1"
    try:
        yield service
    finally:
        service.may_answer.set()
        server.shutdown()
        thread.join()
        server.server_close()
