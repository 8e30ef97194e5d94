"""Questions become vectors on one thread, with a bounded queue in front and a memory behind."""

from __future__ import annotations

import hashlib
import logging
import threading
import unicodedata
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from uuid import UUID

import numpy as np
from numpy.typing import NDArray

from knowledge.embedding.providers import Provider, current_spec, provider
from knowledge.embedding.specs import EmbeddingFailed, ModelUnusable

logger = logging.getLogger(__name__)

Vector = NDArray[np.float32]
Key = tuple[UUID, str, bytes]

WAITING = 32
"""Questions in the queue: at 10 ms each the last one waits longer than any deadline for a vector."""

REMEMBERED = 10_000
"""Vectors kept: about 15 MB at 384 dimensions."""

READ_CHARACTERS = 8_192
"""Looked at of a question, half from each end, before any tokenizer sees it."""


class EncoderBusy(EmbeddingFailed):
    """Too many questions are waiting to be embedded."""


class QueryEncoder:
    """Embeds questions one after another. Thread-safe.

    The memory is keyed by tenant too: a vector that comes back at once would otherwise tell one tenant what
    another has asked.
    """

    def __init__(self, *, waiting: int = WAITING, remembered: int = REMEMBERED) -> None:
        self._room = threading.BoundedSemaphore(waiting)
        self._remembered = remembered
        self._memory: OrderedDict[Key, Vector] = OrderedDict()
        self._remembering = threading.Lock()
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="query-encoder")

    def start(
        self, tenant_id: UUID, text: str, *, model_id: str, load: Callable[[], Provider]
    ) -> Vector | Future[Vector]:
        """The remembered vector, or a future of it. A full queue gives a future that has failed (EncoderBusy)."""
        text = _normal(text)
        key = (tenant_id, model_id, hashlib.blake2b(text.encode("utf-8", "replace"), digest_size=16).digest())
        known = self._recall(key)
        if known is not None:
            return known
        if not self._room.acquire(blocking=False):
            return _failed(EncoderBusy("too many questions are waiting to be embedded"))
        future = self._thread.submit(self._encode, key, text, load)
        future.add_done_callback(lambda done: self._room.release())  # a cancelled one makes room too
        return future

    def _recall(self, key: Key) -> Vector | None:
        with self._remembering:
            vector = self._memory.get(key)
            if vector is not None:
                self._memory.move_to_end(key)
            return vector

    def _encode(self, key: Key, text: str, load: Callable[[], Provider]) -> Vector:
        vector: Vector = load().embed([text], role="query")[0]
        vector.flags.writeable = False
        with self._remembering:
            self._memory[key] = vector
            while len(self._memory) > self._remembered:
                self._memory.popitem(last=False)
        return vector


def _failed(error: EmbeddingFailed) -> Future[Vector]:
    future: Future[Vector] = Future()
    future.set_exception(error)
    return future


def _normal(text: str) -> str:
    if len(text) > READ_CHARACTERS:
        text = f"{text[: READ_CHARACTERS // 2]} {text[-READ_CHARACTERS // 2 :]}"
    return unicodedata.normalize("NFC", text)


_encoder = QueryEncoder()


def embed_query_future(tenant_id: UUID, text: str, *, model: str | None = None) -> Vector | Future[Vector]:
    """A question's vector when it is remembered, else a future of it; never blocks.

    For async code: `await asyncio.wait_for(asyncio.wrap_future(future), deadline)`; cancelling gives the
    place in the queue free. The future raises EmbeddingFailed, and EncoderBusy when the queue is full.
    `model` asks for another model than the configured one.
    """
    try:
        spec = current_spec(model)
    except ModelUnusable as error:
        return _failed(error)
    return _encoder.start(tenant_id, text, model_id=spec.id, load=lambda: provider(model))


def embed_query(tenant_id: UUID, text: str, *, timeout: float | None, model: str | None = None) -> Vector | None:
    """A question's unit vector, float32 [dimensions], read-only; at most about 128 tokens of it are read.

    None when it takes longer than `timeout` seconds (None waits), when too many questions wait already, or
    when the model fails: the caller goes on with text alone. The vector is remembered for the tenant.
    """
    started = embed_query_future(tenant_id, text, model=model)
    if not isinstance(started, Future):
        return started
    try:
        return started.result(timeout)
    except TimeoutError:
        started.cancel()
        return None
    except EmbeddingFailed as error:
        logger.warning("A question could not be embedded: %s", error)
        return None
