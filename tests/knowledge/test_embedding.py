"""The door: one provider per process, questions on one thread with a deadline, a memory per tenant."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from concurrent.futures import Future
from pathlib import Path
from uuid import uuid4

import numpy as np
import pytest
from pytest_django import Settings

from knowledge.embedding import (
    EncoderBusy,
    ModelUnusable,
    current_spec,
    embed_documents,
    embed_query,
    embed_query_future,
    is_ready,
    provider,
    warm,
)
from knowledge.embedding.hashing import HashProvider
from knowledge.embedding.providers import Provider
from knowledge.embedding.queries import QueryEncoder, Vector
from tests.knowledge.embedding_service import Service, embedding_service

TENANT = uuid4()
RIVAL = uuid4()


@pytest.fixture
def service(settings: Settings) -> Iterator[Service]:
    with embedding_service() as running:
        settings.KB_EMBEDDING_PROVIDER = "openai"
        settings.KB_EMBEDDING_MODEL = "tiny"
        settings.KB_EMBEDDING_DIMENSIONS = 8
        settings.KB_EMBEDDING_BASE_URL = running.url
        yield running


def test_it_works() -> None:
    passages = embed_documents(["rotate an access key", "boil water"])
    question = embed_query(TENANT, "how do I rotate my access key?", timeout=10)

    assert question is not None
    assert (passages @ question).argmax() == 0


def test_the_spec_is_known_without_a_model() -> None:
    assert current_spec().id == "hash-384"
    assert current_spec("hash-768").dimensions == 768


def test_two_models_of_different_size_work_side_by_side() -> None:
    larger = embed_query(TENANT, "one question", timeout=10, model="hash-768")
    usual = embed_query(TENANT, "one question", timeout=10)

    assert larger is not None
    assert usual is not None
    assert (larger.shape, usual.shape) == ((768,), (384,))
    assert embed_documents(["text"], model="hash-768").shape == (1, 768)


def test_it_is_ready_once_warm(settings: Settings) -> None:
    settings.KB_EMBEDDING_MODEL = "hash-96"
    assert not is_ready()

    warm()

    assert is_ready()
    assert provider() is provider()


def test_no_documents_give_no_vectors() -> None:
    assert embed_documents([]).shape == (0, 384)


def test_a_model_that_is_not_built_says_what_to_do(settings: Settings, tmp_path: Path) -> None:
    settings.KB_EMBEDDING_PROVIDER = "onnx"
    settings.KB_MODEL_DIR = tmp_path

    with pytest.raises(ModelUnusable, match="run manage"):
        current_spec()
    assert embed_query(TENANT, "a question", timeout=1) is None


def test_a_question_is_embedded_once_per_tenant(service: Service) -> None:
    embed_query(TENANT, "asked twice", timeout=10)
    embed_query(TENANT, "asked twice", timeout=10)
    embed_query(RIVAL, "asked twice", timeout=10)

    assert len(service.questions) == 2


def test_two_ways_to_write_the_same_letters_are_one_question(service: Service) -> None:
    embed_query(TENANT, "caf\u00e9", timeout=10)
    embed_query(TENANT, "cafe\u0301", timeout=10)

    assert len(service.questions) == 1


def test_a_slow_answer_is_not_waited_for_but_remembered(service: Service) -> None:
    service.may_answer.clear()
    assert embed_query(TENANT, "slow question", timeout=0.01) is None

    service.may_answer.set()

    assert embed_query(TENANT, "slow question", timeout=10) is not None


def test_a_failure_gives_no_vector(service: Service) -> None:
    service.refusals = [(500, {}, "broken")]

    assert embed_query(TENANT, "unlucky question", timeout=10) is None


def test_a_remembered_vector_can_not_be_changed() -> None:
    vector = embed_query(TENANT, "keep this", timeout=10)

    assert vector is not None
    with pytest.raises(ValueError, match="read-only"):
        vector[0] = 9.0


async def test_async_code_waits_for_a_future_and_then_gets_the_vector_at_once() -> None:
    started = embed_query_future(TENANT, "asked from async code")
    assert isinstance(started, Future)

    vector = await asyncio.wait_for(asyncio.wrap_future(started), 10)

    again = embed_query_future(TENANT, "asked from async code")
    assert isinstance(again, np.ndarray)
    np.testing.assert_array_equal(again, vector)


def load_when(may_load: threading.Event) -> Provider:
    may_load.wait(10)
    return HashProvider()


def start(encoder: QueryEncoder, text: str, may_load: threading.Event) -> Vector | Future[Vector]:
    return encoder.start(TENANT, text, model_id="hash-384", load=lambda: load_when(may_load))


def test_a_full_queue_refuses_at_once_and_has_room_again() -> None:
    encoder = QueryEncoder(waiting=2)
    may_load = threading.Event()
    first, second, third = (start(encoder, text, may_load) for text in ("first", "second", "third"))
    assert isinstance(first, Future)
    assert isinstance(second, Future)
    assert isinstance(third, Future)
    assert isinstance(third.exception(0), EncoderBusy)

    may_load.set()
    first.result(10)
    second.result(10)

    fourth = start(encoder, "fourth", may_load)
    assert isinstance(fourth, Future)
    assert fourth.result(10).shape == (384,)


def test_a_cancelled_question_gives_its_place_free() -> None:
    encoder = QueryEncoder(waiting=2)
    may_load = threading.Event()
    running, waiting = start(encoder, "running", may_load), start(encoder, "waiting", may_load)
    assert isinstance(running, Future)
    assert isinstance(waiting, Future)

    assert waiting.cancel()

    after = start(encoder, "after", may_load)
    may_load.set()
    assert isinstance(after, Future)
    assert after.result(10).shape == (384,)


def test_the_memory_forgets_the_oldest() -> None:
    encoder = QueryEncoder(remembered=2)
    may_load = threading.Event()
    may_load.set()
    for text in ("a", "b", "c"):
        started = start(encoder, text, may_load)
        assert isinstance(started, Future)
        started.result(10)

    assert isinstance(start(encoder, "c", may_load), np.ndarray)
    assert isinstance(start(encoder, "a", may_load), Future)
