"""A provider over HTTP: the embeddings endpoint of OpenAI, which vLLM, TEI and Ollama speak too, and Voyage's."""

from __future__ import annotations

import json
import random
import time
import urllib.error
import urllib.request
from collections.abc import Sequence
from dataclasses import replace
from email.message import Message
from email.utils import parsedate_to_datetime
from http.client import HTTPException, HTTPMessage
from typing import IO, Any, Literal, NoReturn
from urllib.parse import urlsplit

import numpy as np

from knowledge.embedding.specs import (
    EmbeddingFailed,
    ModelSpec,
    ModelUnusable,
    Role,
    checked,
    known_spec,
)
from knowledge.embedding.vectors import Vectors, readable, unit_rows

BATCH = 64
"""Texts a request: every server we know takes as many."""

TRIES = 5
LONGEST_PAUSE = 60.0
QUERY_CHARACTERS = 512
"""Read of a question, head and tail: about 128 tokens."""

UNKNOWN_MAX_TOKENS = 512
"""Assumed of a model that we know nothing of: most that can be served read at least as much."""

Dialect = Literal["openai", "voyage"]


class RemoteFailed(EmbeddingFailed):
    """The embedding service did not answer with vectors."""


class RemoteProvider:
    """Embeds by asking a service. Documents are retried when it is busy; a question is asked once."""

    def __init__(
        self,
        spec: ModelSpec,
        *,
        model: str,
        base_url: str,
        api_key: str = "",
        ask_for_dimensions: bool = False,
        timeout: float = 60.0,
        first_pause: float = 0.5,
    ) -> None:
        if urlsplit(base_url).scheme not in {"http", "https"} or not urlsplit(base_url).netloc:
            raise ModelUnusable("KB_EMBEDDING_BASE_URL must be a whole http or https URL")
        self.spec = spec
        self._model = model
        self._url = base_url.rstrip("/") + "/embeddings"
        self._key = api_key
        self._dialect = dialect_of(model)
        self._ask_for_dimensions = ask_for_dimensions or self._dialect == "voyage"
        self._timeout = timeout
        self._first_pause = first_pause
        self._opener = urllib.request.build_opener(_NoRedirects)

    def embed(self, texts: Sequence[str], *, role: Role) -> Vectors:
        """Vectors of `texts` in their order, [n, dimensions]. Raises EmbeddingFailed."""
        ready = [self.spec.prefix(role) + self._cut(readable(text), role=role) for text in texts]
        vectors = np.zeros((len(texts), self.spec.dimensions), dtype=np.float32)
        for start in range(0, len(ready), BATCH):
            batch = ready[start : start + BATCH]
            vectors[start : start + len(batch)] = self._ask(batch, role=role)
        return vectors

    def _cut(self, text: str, *, role: Role) -> str:
        if role == "query" and len(text) > QUERY_CHARACTERS:
            return f"{text[: QUERY_CHARACTERS // 2]} {text[-QUERY_CHARACTERS // 2 :]}"
        return text[: self.spec.max_tokens * 2]  # more than two characters a token everywhere but in CJK

    def _ask(self, texts: list[str], *, role: Role) -> Vectors:
        body = json.dumps(self._question(texts, role=role)).encode("utf-8")
        answer = self._answer(body, tries=TRIES if role == "document" else 1)
        return _vectors(answer, count=len(texts), dimensions=self.spec.dimensions)

    def _question(self, texts: list[str], *, role: Role) -> dict[str, Any]:
        question: dict[str, Any] = {"model": self._model, "input": texts}
        if self._dialect == "voyage":
            question["input_type"] = role
        if self._ask_for_dimensions:
            name = "output_dimension" if self._dialect == "voyage" else "dimensions"
            question[name] = self.spec.dimensions
        return question

    def _answer(self, body: bytes, *, tries: int) -> Any:
        for attempt in range(tries):
            try:
                return self._post(body)
            except _BusyService as busy:
                if attempt == tries - 1:
                    raise RemoteFailed(str(busy)) from busy
                time.sleep(busy.wait if busy.wait is not None else self._pause(attempt))
        raise RemoteFailed("the embedding service was not asked")

    def _pause(self, attempt: int) -> float:
        # Jitter, or all the workers that were refused together come back together.
        pause = min(LONGEST_PAUSE, self._first_pause * float(2**attempt))
        return pause * (0.5 + random.random() / 2)  # noqa: S311

    def _post(self, body: bytes) -> Any:
        request = urllib.request.Request(self._url, data=body, headers=self._headers(), method="POST")  # noqa: S310
        try:
            with self._opener.open(request, timeout=self._timeout) as response:
                return json.load(response)
        except urllib.error.HTTPError as error:
            with error:
                self._refused(error)
        except (OSError, HTTPException) as error:
            raise _BusyService(f"the embedding service can't be reached: {error}", None) from error
        except ValueError as error:
            raise RemoteFailed(f"the embedding service's answer is not JSON: {error}") from error

    def _headers(self) -> dict[str, str]:
        headers = {"Content-Type": "application/json", "Accept": "application/json", "User-Agent": "kbplatform"}
        return {**headers, "Authorization": f"Bearer {self._key}"} if self._key else headers

    def _refused(self, error: urllib.error.HTTPError) -> NoReturn:
        said = error.read(2000).decode("utf-8", "replace")
        said = said.replace(self._key, "[key]") if self._key else said
        message = f"the embedding service answered {error.code}: {said[:400]}"
        if error.code in {408, 429} or error.code >= 500:
            raise _BusyService(message, _asked_wait(error.headers)) from error
        raise RemoteFailed(message) from error


class _BusyService(Exception):
    """The service may answer when it is asked again, after `wait` seconds if it said so."""

    def __init__(self, message: str, wait: float | None) -> None:
        super().__init__(message)
        self.wait = wait


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """A redirect would take the texts and the key to a host that nobody chose."""

    def redirect_request(
        self, req: urllib.request.Request, fp: IO[bytes], code: int, msg: str, headers: HTTPMessage, newurl: str
    ) -> None:
        return None


def _asked_wait(headers: Message) -> float | None:
    """Seconds from a Retry-After header (a number, or a date), at most LONGEST_PAUSE; None without one."""
    value = headers.get("retry-after", "").strip()
    try:
        seconds = float(value) if value[:1].isdigit() else parsedate_to_datetime(value).timestamp() - time.time()
    except ValueError:
        return None
    return min(LONGEST_PAUSE, max(0.0, seconds))


def _vectors(answer: Any, *, count: int, dimensions: int) -> Vectors:
    try:
        rows = sorted(answer["data"], key=lambda row: int(row["index"]))
        values = np.array([row["embedding"] for row in rows], dtype=np.float32)
    except (KeyError, TypeError, ValueError) as error:
        raise RemoteFailed("the embedding service's answer has no list of vectors") from error
    return unit_rows(values, count=count, dimensions=dimensions)


def dialect_of(model: str) -> Dialect:
    """Voyage names two fields otherwise; all others speak OpenAI's way."""
    return "voyage" if model.startswith("voyage-") else "openai"


def can_be_asked_for_fewer(model: str) -> bool:
    """Whether the model's API takes a number of dimensions."""
    return model.startswith(("text-embedding-3-", "voyage-"))


def remote_spec(model: str, *, dimensions: int | None) -> ModelSpec:
    """The spec of a model behind an API; `dimensions` when the settings name a number.

    Another size than the usual one is another model: its id says so. Raises ModelUnusable for a model of
    unknown size, and for one too large to be stored.
    """
    known = known_spec(model)
    if known is not None and dimensions in {None, known.dimensions}:
        return known
    if dimensions is None:
        raise ModelUnusable(f"{model} is not a model we know: set KB_EMBEDDING_DIMENSIONS to the size of its vectors")
    base = known or ModelSpec(id=model.replace("/", "--"), dimensions=dimensions, max_tokens=UNKNOWN_MAX_TOKENS)
    return checked(replace(base, id=f"{base.id}@{dimensions}", dimensions=dimensions))
