"""The product as a benchmark sees it: started with `./kb up` on a data directory of its own, spoken to over HTTP."""

from __future__ import annotations

import http.client
import json
import os
import secrets
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

ROOT = Path(__file__).resolve().parent.parent


@dataclass(frozen=True)
class Reply:
    """An answer: status, JSON body, seconds from sending to the last byte."""

    status: int
    body: Any
    seconds: float


class Product:
    """A running server over the stand-in upstream; a context manager that stops what it started."""

    def __init__(self, *, data: Path | None = None) -> None:
        self._temporary = data is None
        self.data = data or Path(tempfile.mkdtemp(prefix="kbplatform-bench-"))
        self.data.chmod(0o755)
        self.base_url = ""
        self.facts: dict[str, Any] = {}

    def __enter__(self) -> Product:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        self.upstream_url = self._start_upstream()
        where = ["--port", str(port), "--data", str(self.data / "data")]
        command = ["./kb", "up", "--json", "--no-demo", *where]
        upstream = {"ANTHROPIC_BASE_URL": self.upstream_url, "ANTHROPIC_API_KEY": "sk-ant-demo"}
        self._process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, env={**os.environ, **upstream})
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise SystemExit(f"the server did not start: {' '.join(command)}")
        self.facts = json.loads(line)
        self.base_url = self.facts["base_url"]
        return self

    def _start_upstream(self) -> str:
        command = [sys.executable, "-m", "proxy.demo_upstream", "--port", "0", "--json"]
        self._upstream = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE)
        assert self._upstream.stdout is not None
        return str(json.loads(self._upstream.stdout.readline())["url"])

    def __exit__(self, *_: object) -> None:
        for process in (self._process, self._upstream):
            process.terminate()
            process.wait(90)
        if self._temporary:
            shutil.rmtree(self.data, ignore_errors=True)

    def manage(self, *arguments: str) -> Any:
        """Run `./kb manage` and return the JSON that it prints."""
        command = ["./kb", "manage", "--data", str(self.data / "data"), *arguments, "--json"]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
        if done.returncode:
            raise SystemExit(f"{' '.join(command)}: {done.stderr[-500:]}")
        return json.loads(done.stdout)

    def fresh_key(self, *, language: str = "en", options: tuple[str, ...] = ()) -> str:
        """Make a tenant and return a key of it with all scopes."""
        slug = f"bench-{secrets.token_hex(4)}"
        self.manage("create_tenant", slug, "--language", language)
        scopes = "messages,query,ask,mcp,pages,ingest,manage"
        return str(self.manage("create_key", "--tenant", slug, "--team", "bench", "--scopes", scopes, *options)["key"])

    def call(self, method: str, path: str, key: str, body: object = None) -> Reply:
        """Send one request and read its whole answer."""
        url = urlsplit(self.base_url)
        connection = http.client.HTTPConnection(url.hostname or "", url.port, timeout=600)
        begun = time.perf_counter()
        data = None if body is None else json.dumps(body).encode()
        connection.request(method, path, data, {"authorization": f"Bearer {key}", "content-type": "application/json"})
        response = connection.getresponse()
        answer = response.read()
        seconds = time.perf_counter() - begun
        connection.close()
        return Reply(response.status, json.loads(answer), seconds)


def percentile(values: list[float], share: float) -> float:
    """Return the value below which that share of the values lies (nearest rank)."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]
