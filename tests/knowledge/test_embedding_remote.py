from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from knowledge.embedding.remote import BATCH, RemoteFailed, RemoteProvider, remote_spec
from knowledge.embedding.specs import ModelSpec, ModelUnusable
from knowledge.embedding.vectors import VectorUnusable
from tests.knowledge.embedding_service import Service, embedding_service, vector_for

SMALL = ModelSpec(id="small", dimensions=8, max_tokens=100, query_prefix="q: ", document_prefix="d: ")


@pytest.fixture
def service() -> Iterator[Service]:
    with embedding_service() as running:
        yield running


def provider_for(
    service: Service, *, spec: ModelSpec = SMALL, model: str = "small", asks: bool = False
) -> RemoteProvider:
    return RemoteProvider(
        spec,
        model=model,
        base_url=service.url,
        api_key="secret-key",
        ask_for_dimensions=asks,
        timeout=5,
        first_pause=0.0,
    )


def test_it_works(service: Service) -> None:
    vectors = provider_for(service).embed(["one", "three"], role="document")

    assert vectors.shape == (2, 8)
    assert vectors.dtype == np.float32
    expected = vector_for("d: three", 8)
    np.testing.assert_allclose(vectors[1], expected / np.linalg.norm(expected), rtol=1e-5)
    assert service.questions == [{"path": "/v1/embeddings", "model": "small", "input": ["d: one", "d: three"]}]
    assert service.headers[0]["authorization"] == "Bearer secret-key"


def test_a_question_carries_the_query_prefix(service: Service) -> None:
    provider_for(service).embed(["one"], role="query")

    assert service.questions[0]["input"] == ["q: one"]


def test_no_texts_ask_nothing(service: Service) -> None:
    assert provider_for(service).embed([], role="document").shape == (0, 8)
    assert service.questions == []


def test_many_texts_go_in_batches_and_keep_their_order(service: Service) -> None:
    texts = ["x" * length for length in range(1, BATCH + 5)]

    vectors = provider_for(service).embed(texts, role="document")

    assert [len(question["input"]) for question in service.questions] == [BATCH, 4]
    assert (np.diff(vectors[:, 0]) > 0).all()


def test_dimensions_are_asked_for_where_the_api_can_give_fewer(service: Service) -> None:
    spec = remote_spec("text-embedding-3-small", dimensions=None)

    vectors = provider_for(service, spec=spec, model="text-embedding-3-small", asks=True).embed(["a"], role="document")

    assert service.questions[0]["dimensions"] == 1024
    assert vectors.shape == (1, 1024)


def test_voyage_is_told_the_role_in_its_own_words(service: Service) -> None:
    spec = remote_spec("voyage-3.5", dimensions=512)

    provider_for(service, spec=spec, model="voyage-3.5").embed(["a"], role="query")

    assert service.questions[0]["input_type"] == "query"
    assert service.questions[0]["output_dimension"] == 512


def test_a_busy_service_is_asked_again_after_the_wait_it_names(service: Service) -> None:
    service.refusals = [(429, {"retry-after": "0"}, "slow down"), (503, {}, "restarting")]

    vectors = provider_for(service).embed(["one"], role="document")

    assert vectors.shape == (1, 8)
    assert len(service.questions) == 3


def test_a_service_that_stays_busy_is_given_up(service: Service) -> None:
    service.refusals = [(503, {}, "restarting")] * 5

    with pytest.raises(RemoteFailed, match="503: restarting"):
        provider_for(service).embed(["one"], role="document")

    assert len(service.questions) == 5


def test_a_question_is_asked_once(service: Service) -> None:
    service.refusals = [(429, {"retry-after": "30"}, "slow down")]

    with pytest.raises(RemoteFailed, match="429"):
        provider_for(service).embed(["one"], role="query")

    assert len(service.questions) == 1


def test_a_refusal_is_told_without_the_key(service: Service) -> None:
    service.refusals = [(401, {}, "Incorrect API key provided: secret-key")]

    with pytest.raises(RemoteFailed, match=r"401: Incorrect API key provided: \[key\]"):
        provider_for(service).embed(["one"], role="document")

    assert len(service.questions) == 1


def test_a_redirect_is_not_followed(service: Service) -> None:
    service.refusals = [(307, {"location": service.url + "/elsewhere"}, "")]

    with pytest.raises(RemoteFailed, match="307"):
        provider_for(service).embed(["one"], role="document")

    assert [question["path"] for question in service.questions] == ["/v1/embeddings"]


def test_vectors_of_another_size_are_refused(service: Service) -> None:
    service.dimensions = 9

    with pytest.raises(VectorUnusable, match=r"\[1, 9\], expected \[1, 8\]"):
        provider_for(service).embed(["one"], role="document")


def test_too_few_vectors_are_refused(service: Service) -> None:
    service.answer = {"data": [{"index": 0, "embedding": [1.0] * 8}]}

    with pytest.raises(VectorUnusable):
        provider_for(service).embed(["one", "two"], role="document")


def test_zeros_are_refused(service: Service) -> None:
    service.answer = {"data": [{"index": 0, "embedding": [0.0] * 8}]}

    with pytest.raises(VectorUnusable, match="zeros"):
        provider_for(service).embed(["one"], role="document")


def test_an_answer_without_vectors_is_refused(service: Service) -> None:
    service.answer = {"error": "no such model"}

    with pytest.raises(RemoteFailed, match="no list of vectors"):
        provider_for(service).embed(["one"], role="document")


def test_an_answer_that_is_no_json_is_refused(service: Service) -> None:
    service.refusals = [(200, {}, "<html>")]

    with pytest.raises(RemoteFailed, match="not JSON"):
        provider_for(service).embed(["one"], role="document")


def test_a_service_that_is_not_there_is_named_as_such() -> None:
    with embedding_service() as gone:
        provider = provider_for(gone)

    with pytest.raises(RemoteFailed, match="can't be reached"):
        provider.embed(["one"], role="query")


def test_nuls_and_lone_surrogates_are_not_sent(service: Service) -> None:
    provider_for(service).embed(["a\0b\ud800c", ""], role="document")

    assert service.questions[0]["input"] == ["d: ab?c", "d: ."]


def test_a_long_question_is_read_at_both_ends(service: Service) -> None:
    provider_for(service).embed(["start" + "x" * 5_000 + "end"], role="query")

    (sent,) = service.questions[0]["input"]
    assert sent.startswith("q: start")
    assert sent.endswith("end")
    assert len(sent) < 600


@pytest.mark.parametrize("url", ["", "ftp://127.0.0.1/v1", "file:///etc/passwd", "127.0.0.1:80"])
def test_only_a_whole_http_url_is_taken(url: str) -> None:
    with pytest.raises(ModelUnusable, match="KB_EMBEDDING_BASE_URL"):
        RemoteProvider(SMALL, model="small", base_url=url)


def test_another_size_is_another_model() -> None:
    assert remote_spec("text-embedding-3-small", dimensions=None).dimensions == 1024
    assert remote_spec("text-embedding-3-small", dimensions=512).id == "text-embedding-3-small@512"


def test_a_model_we_do_not_know_needs_its_size() -> None:
    with pytest.raises(ModelUnusable, match="KB_EMBEDDING_DIMENSIONS"):
        remote_spec("org/new-model", dimensions=None)

    assert remote_spec("org/new-model", dimensions=640).id == "org--new-model@640"


def test_a_size_that_can_not_be_stored_is_refused_with_the_limit() -> None:
    with pytest.raises(ModelUnusable, match=r"1536 dimensions.*1320"):
        remote_spec("text-embedding-3-small", dimensions=1536)
