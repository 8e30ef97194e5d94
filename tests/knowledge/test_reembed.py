"""Moving a corpus to another embedding model."""

from __future__ import annotations

import json
import threading
from collections.abc import Sequence

import numpy as np
import pytest
from django.core.management import call_command
from django.db import connection

from knowledge.embedding import EmbeddingFailed, Role, provider
from knowledge.embedding.hashing import HashProvider, hash_spec
from knowledge.embedding.vectors import Vectors
from knowledge.models import Embedding, EmbeddingSet
from knowledge.reembed import drop_old, reembed
from knowledge.search import Found, search_with, stats
from tenants.facts import TenantFacts
from tenants.scope import tenant_scope
from tests.knowledge.corpus import make_page

SMALL, LARGE = HashProvider(hash_spec(384)), HashProvider(hash_spec(768))
TEXTS = [f"the heron number {number} stands in the river" for number in range(80)]


class Stopping(HashProvider):
    """A provider that fails after some calls."""

    def __init__(self, calls: int) -> None:
        super().__init__(hash_spec(768))
        self.calls = calls

    def embed(self, texts: Sequence[str], *, role: Role) -> Vectors:
        """Embed, or fail."""
        self.calls -= 1
        if self.calls < 0:
            raise EmbeddingFailed("stopped")
        return super().embed(texts, role=role)


def ask(tenant: TenantFacts, by: HashProvider) -> Found:
    """Search with a provider's own vector."""
    vector = by.embed(["heron number 7"], role="query")[0]
    return search_with(tenant, "heron number 7", vector=vector, spec=by.spec)


def sets(tenant: TenantFacts) -> dict[str, tuple[str, int]]:
    """Return the tenant's sets by model, with their true numbers of vectors."""
    with tenant_scope(tenant):
        return {
            found.model.name: (found.state, Embedding.objects.filter(model=found.model).count())
            for found in EmbeddingSet.objects.select_related("model")
        }


def test_it_works(tenant: TenantFacts, rival: TenantFacts) -> None:
    make_page(tenant, "a.md", TEXTS)
    make_page(rival, "a.md", TEXTS)
    before = stats(tenant).corpus_version

    done = reembed(tenant, provider=LARGE)

    assert (done.model, done.before, done.embedded) == ("hash-768", ("hash-384",), 80)
    assert sets(tenant) == {"hash-768": ("live", 80)}
    assert sets(rival) == {"hash-384": ("live", 80)}
    assert ask(tenant, LARGE).degraded == ()
    assert stats(tenant).embedding_model == "hash-768"
    assert stats(tenant).corpus_version == before + 1


def test_the_sum_is_that_of_the_new_vectors(tenant: TenantFacts) -> None:
    make_page(tenant, "a.md", TEXTS)

    reembed(tenant, provider=LARGE)

    with tenant_scope(tenant):
        total = np.sum([np.asarray(row.embedding) for row in Embedding.objects.all()], axis=0)
        found = EmbeddingSet.objects.get()
    assert found.count == 80
    assert np.allclose(np.asarray(found.embedding_sum), total, atol=1e-2)


def test_two_models_side_by_side(tenant: TenantFacts) -> None:
    make_page(tenant, "a.md", TEXTS)

    reembed(tenant, provider=LARGE, keep_old=True)

    assert sets(tenant) == {"hash-384": ("kept", 80), "hash-768": ("live", 80)}
    assert ask(tenant, SMALL).degraded == ()
    assert ask(tenant, LARGE).degraded == ()
    assert drop_old(tenant) == ("hash-384",)
    assert ask(tenant, SMALL).degraded == ("vector",)


def test_a_move_that_stopped_goes_on(tenant: TenantFacts) -> None:
    make_page(tenant, "a.md", TEXTS)
    with pytest.raises(EmbeddingFailed):
        reembed(tenant, provider=Stopping(1))
    meanwhile = sets(tenant)

    done = reembed(tenant, provider=LARGE)

    assert meanwhile == {"hash-384": ("live", 80), "hash-768": ("building", 64)}
    assert done.embedded == 16


def test_a_set_that_is_being_built_is_not_searched(tenant: TenantFacts) -> None:
    make_page(tenant, "a.md", TEXTS)
    with pytest.raises(EmbeddingFailed):
        reembed(tenant, provider=Stopping(1))

    assert ask(tenant, LARGE).degraded == ("vector",)
    assert ask(tenant, SMALL).degraded == ()


def test_pages_published_meanwhile_are_not_forgotten(tenant: TenantFacts) -> None:
    make_page(tenant, "a.md", TEXTS)

    reembed(tenant, provider=LARGE, progress=lambda done, total: publish_once(tenant))

    assert sets(tenant) == {"hash-768": ("live", 81)}


def publish_once(tenant: TenantFacts) -> None:
    """Publish another page with the earlier model."""
    make_page(tenant, "b.md", ["the badger digs"])


def test_questions_are_answered_throughout(tenant: TenantFacts) -> None:
    make_page(tenant, "a.md", TEXTS)
    done = threading.Event()
    failed: list[BaseException] = []

    def move() -> None:
        try:
            reembed(tenant, provider=LARGE, keep_old=True)
        except BaseException as error:
            failed.append(error)
        finally:
            done.set()
            connection.close()

    thread = threading.Thread(target=move)
    thread.start()
    answers = []
    while not done.is_set():
        answers.append(ask(tenant, SMALL))
    thread.join()

    assert failed == []
    assert all(len(found.hits) == 8 and not found.degraded for found in answers)


def test_the_same_model_again_is_no_work(tenant: TenantFacts) -> None:
    make_page(tenant, "a.md", TEXTS)
    before = stats(tenant).corpus_version

    done = reembed(tenant, provider=SMALL)

    assert (done.embedded, done.before) == (0, ())
    assert stats(tenant).corpus_version == before


def test_an_empty_corpus_can_move(tenant: TenantFacts) -> None:
    reembed(tenant, provider=LARGE)

    make_page(tenant, "a.md", ["heron"], embedder=LARGE)

    assert sets(tenant) == {"hash-768": ("live", 1)}


def test_pages_follow_to_the_new_model(tenant: TenantFacts) -> None:
    make_page(tenant, "a.md", TEXTS)
    reembed(tenant, provider=LARGE, keep_old=True)

    make_page(tenant, "a.md", [*TEXTS[:79], "the badger digs"], embedder=LARGE)

    assert sets(tenant) == {"hash-384": ("kept", 79), "hash-768": ("live", 80)}


def test_the_command(tenant: TenantFacts, capsys: pytest.CaptureFixture[str]) -> None:
    make_page(tenant, "a.md", TEXTS[:3], embedder=LARGE)

    call_command("reembed", tenant=tenant.slug, json=True)
    moved = json.loads(capsys.readouterr().out)
    call_command("reembed", tenant=tenant.slug, drop_old=True, json=True)

    assert moved["model"] == provider().spec.id == "hash-384"
    assert (moved["before"], moved["embedded"]) == (["hash-768"], 3)
    assert json.loads(capsys.readouterr().out)["dropped"] == []
