"""The API as a program meets it, through Django's whole stack but without a socket."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client

from knowledge.ingest import GivenChunk, ingest_chunks, run_documents
from tenants.facts import TenantFacts

# Unlike each other, so that a corpus has a background to stand out from.
FILLER = (
    "Tomatoes want six hours of sun a day and water at the root.",
    "The comet returns every 76 years and was last seen in 1986.",
    "Knead the dough for ten minutes, then let it rise in a warm place.",
    "A ferry leaves the northern pier at half past seven on weekdays.",
    "The violin has four strings tuned in fifths.",
    "Glaciers carve valleys with a rounded floor and steep walls.",
    "The library lends films for one week and books for four.",
    "Bees tell each other the direction of flowers by dancing.",
)


# One for all tests: each new one reads every static file's name. The API keeps nothing between requests.
_CLIENT = Client()


@dataclass(frozen=True)
class Answer:
    """An answer, read whole."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        """The body as JSON."""
        return json.loads(self.body)

    @property
    def message(self) -> str:
        """The text of an error."""
        return str(self.json["error"]["message"])

    def alike(self) -> tuple[int, bytes, list[tuple[str, str]]]:
        """What two answers must have in common to tell nothing apart."""
        headers = sorted((name, value) for name, value in self.headers.items() if name != "request-id")
        return self.status, re.sub(rb"req_\w+", b"req", self.body), headers


def call(
    method: str, path: str, body: Any = None, *, key: str | None = None, headers: Mapping[str, str] | None = None
) -> Answer:
    """Send JSON (or bytes as they are) with a key."""
    sent = {"authorization": f"Bearer {key}"} if key else {}
    data = body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()
    response = _CLIENT.generic(method, path, data, "application/json", headers={**sent, **(headers or {})})
    return _answer(response)


def upload(key: str, files: Sequence[tuple[str, bytes]], **fields: Any) -> Answer:
    """Send files as a multipart form."""
    parts = [SimpleUploadedFile(name, data) for name, data in files]
    sent = {"authorization": f"Bearer {key}"}
    return _answer(_CLIENT.post("/v1/documents", {**fields, "file": parts}, headers=sent))


def _answer(response: Any) -> Answer:
    headers = {name.lower(): value for name, value in response.headers.items()}
    assert not response.cookies
    return Answer(response.status_code, headers, response.content)


def basic(key: str) -> dict[str, str]:
    """The header of a client that was given http://x:KEY@host."""
    return {"authorization": "Basic " + base64.b64encode(f"x:{key}".encode()).decode()}


def assert_refused(answer: Answer, status: int, kind: str, *mentions: str) -> None:
    """Check an error of ours: status, shape, no retry, and what its message names."""
    assert answer.status == status, answer.body
    body = answer.json
    assert set(body) == {"type", "error", "request_id"}
    assert (body["type"], body["error"]["type"]) == ("error", kind)
    assert re.fullmatch(r"req_[0-9a-f]{24}", body["request_id"])
    assert answer.headers["request-id"] == body["request_id"]
    assert answer.headers["x-should-retry"] == "false"
    assert answer.headers["content-type"] == "application/json"
    for words in mentions:
        assert words in answer.message


def fill(tenant: TenantFacts, texts: Sequence[str] = FILLER, *, folder: str = "filler", source: str = "api") -> None:
    """Give a tenant a page for each text."""
    chunks = [GivenChunk(text, f"{folder}/{number}.md", 0) for number, text in enumerate(texts)]
    assert ingest_chunks(tenant, chunks, source=source).stored == len(texts)


def index(tenant: TenantFacts, key: str, path: str, content: str, **fields: Any) -> None:
    """Send a document and let it be indexed."""
    answer = call("POST", "/v1/documents", {"path": path, "content": content, **fields}, key=key)
    assert answer.status == 202, answer.body
    run_documents(tenant, int(answer.json["job"]["id"]))


def paths(key: str, query: str, **fields: Any) -> list[str]:
    """The paths of a query's hits, in their order."""
    answer = call("POST", "/v1/query", {"query": query, **fields}, key=key)
    assert answer.status == 200, answer.body
    return [hit["path"] for hit in answer.json["hits"]]
