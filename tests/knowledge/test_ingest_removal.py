"""Taking pages out of the corpus."""

from __future__ import annotations

import pytest

from knowledge.ingest import NothingNamed, delete_documents, flush
from knowledge.search import stats
from tenants.facts import TenantFacts
from tenants.models import AuditEntry
from tenants.scope import tenant_scope
from tests.knowledge.ingested import holders, paths, store, version


@pytest.fixture(autouse=True)
def _pages(tenant: TenantFacts) -> None:
    store(tenant, "same.md", "The lorquin wheel.", "A second part.", source="one")
    store(tenant, "alone.md", "The norvith wheel.", source="one")
    store(tenant, "same.md", "The mirabeck wheel.", source="two")
    store(tenant, "same.md", "The kelvane wheel.", source="wiki")


def test_it_works(tenant: TenantFacts) -> None:
    assert delete_documents(tenant, path="alone.md", actor="kb_sk_x") == 1

    assert holders(tenant, "norvith") == []
    assert stats(tenant).chunks == 4


def test_a_path_alone_covers_every_source_but_the_wiki(tenant: TenantFacts) -> None:
    assert delete_documents(tenant, path="same.md") == 3

    assert holders(tenant, "kelvane") == ["same.md"]
    assert paths(tenant) == ["alone.md", "same.md"]


def test_a_source_goes_whole_and_alone(tenant: TenantFacts) -> None:
    assert delete_documents(tenant, source="one") == 3

    assert (holders(tenant, "mirabeck"), holders(tenant, "kelvane")) == (["same.md"], ["same.md"])


def test_path_and_source_name_one_page(tenant: TenantFacts) -> None:
    assert delete_documents(tenant, path="same.md", source="wiki") == 1

    assert holders(tenant, "mirabeck") == ["same.md"]


def test_what_is_unknown_deletes_nothing_and_moves_nothing(tenant: TenantFacts) -> None:
    before = version(tenant)

    assert delete_documents(tenant, path="no/such.md") == 0
    assert delete_documents(tenant, source="nobody") == 0
    assert version(tenant) == before


def test_nothing_named_is_refused(tenant: TenantFacts) -> None:
    with pytest.raises(NothingNamed, match="path or source"):
        delete_documents(tenant)


def test_flush_leaves_the_wiki(tenant: TenantFacts) -> None:
    assert flush(tenant) == 4

    assert (paths(tenant), holders(tenant, "kelvane")) == (["same.md"], ["same.md"])


def test_flush_takes_the_wiki_when_it_is_named(tenant: TenantFacts) -> None:
    assert flush(tenant, source="wiki") == 1

    assert stats(tenant).chunks == 4


def test_flush_of_an_empty_corpus_moves_nothing(tenant: TenantFacts, rival: TenantFacts) -> None:
    assert flush(rival) == 0

    assert version(rival) == 0
    assert stats(tenant).pages == 4


def test_deletions_are_audited(tenant: TenantFacts) -> None:
    flush(tenant, actor="kb_sk_x")

    with tenant_scope(tenant):
        entry = AuditEntry.objects.filter(tenant_id=tenant.id, action="knowledge.flush").get()
    assert (entry.actor, entry.detail["chunks"]) == ("kb_sk_x", 4)


def test_tenants_never_mix(tenant: TenantFacts, rival: TenantFacts) -> None:
    store(rival, "same.md", "The lorquin wheel.", source="one")

    delete_documents(rival, source="one")
    flush(rival)

    assert stats(tenant).pages == 4
