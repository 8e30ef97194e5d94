"""The stand-in upstream as tests use it: started as the program that it is, scripted and read over HTTP."""

from __future__ import annotations

import base64
import json
import select
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Received:
    """One request as it arrived upstream."""

    method: str
    path: str
    query: str
    headers: list[tuple[str, str]]
    body: bytes
    status: int | None
    usage: dict[str, Any] | None
    produced: int
    finished: bool
    client_left: bool

    def header(self, name: str) -> str | None:
        """Return a header's values joined by commas, None without one."""
        return ", ".join(v for k, v in self.headers if k.lower() == name) or None

    @property
    def json(self) -> Any:
        """The body, parsed."""
        return json.loads(self.body)


class Demo:
    """A running stand-in."""

    def __init__(self, url: str) -> None:
        self.url = url

    def script(self, *behaviours: dict[str, Any], **order: Any) -> None:
        """Tell what the next requests get; `default=` for all others, `advance_seconds=` moves its clock."""
        self._call("POST", "/_demo/script", {"next": list(behaviours), **order})

    def reset(self) -> None:
        """Forget script, log and prompt cache."""
        self.script(reset=True)

    @property
    def log(self) -> list[Received]:
        """What it received, in order."""
        return [
            Received(
                **{
                    **entry,
                    "body": base64.b64decode(entry["body"]),
                    "headers": [(k, v) for k, v in entry["headers"]],
                }
            )
            for entry in self._call("GET", "/_demo/log")
        ]

    def messages(self) -> list[Received]:
        """The requests for answers alone."""
        return [entry for entry in self.log if entry.path.endswith("/v1/messages")]

    def _call(self, method: str, path: str, value: Any = None) -> Any:
        data = None if value is None else json.dumps(value).encode()
        request = urllib.request.Request(self.url + path, data, {"content-type": "application/json"}, method=method)
        with urllib.request.urlopen(request, timeout=10) as answer:
            return json.loads(answer.read())


@contextmanager
def running(*arguments: str) -> Iterator[Demo]:
    """Start a stand-in on a free port and stop it."""
    command = [sys.executable, "-m", "proxy.demo_upstream", "--port", "0", "--json", *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        select.select([process.stdout], [], [], 30)
        yield Demo(json.loads(process.stdout.readline())["url"])
        process.terminate()
        process.wait(10)
