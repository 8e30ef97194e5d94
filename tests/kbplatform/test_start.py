"""The start page."""

from __future__ import annotations

import pytest
from django.test import Client

from knowledge.ingest import GivenChunk, ingest_chunks
from tenants.facts import TenantFacts
from tenants.models import Role, User
from tests.make import make_member, make_user

TEXT = "The harwick valve opens at dawn."


@pytest.fixture
def corpus(tenant: TenantFacts) -> TenantFacts:
    """A tenant with a page."""
    ingest_chunks(tenant, [GivenChunk(TEXT, "docs/valve.md", 0), GivenChunk("Bees dance.", "docs/bees.md", 0)])
    return tenant


def page(user: User | None = None, address: str = "/") -> str:
    """Open the page and return its text."""
    client = Client()
    if user is not None:
        client.force_login(user)
    answer = client.get(address)
    assert answer.status_code == 200
    assert "default-src 'none'" in answer.headers["content-security-policy"]
    return answer.content.decode()


def test_it_works(corpus: TenantFacts) -> None:
    shown = page(make_member(corpus, role=Role.VIEWER))

    assert corpus.slug in shown
    assert "<td>2</td>" in shown
    assert 'type="search"' in shown


def test_anybody_learns_what_this_is_and_no_more(corpus: TenantFacts) -> None:
    shown = page()

    assert "<h1>kbplatform</h1>" in shown
    assert "/v1/docs" in shown
    assert corpus.slug not in shown
    assert "<form" not in shown


def test_a_search_shows_hits_with_their_lines(corpus: TenantFacts) -> None:
    shown = page(make_member(corpus, role=Role.VIEWER), f"/?tenant={corpus.slug}&q=harwick+valve")

    assert TEXT in shown
    assert "docs/valve.md#L1-L1" in shown


def test_a_superuser_sees_every_tenant_that_fits(corpus: TenantFacts) -> None:
    shown = page(make_user(superuser=True), f"/?tenant={corpus.slug}&q=harwick")

    assert "What the tenants hold" in shown


@pytest.mark.parametrize("question", ["%00", "", "a" * 3000, "<script>alert(1)</script>"])
def test_odd_questions_are_no_matter(corpus: TenantFacts, question: str) -> None:
    shown = page(make_member(corpus, role=Role.VIEWER), f"/?tenant={corpus.slug}&q={question}")

    assert "<script>alert" not in shown


def test_the_rivals_staff_sees_nothing_of_it(corpus: TenantFacts, rival: TenantFacts) -> None:
    shown = page(make_member(rival, role=Role.MANAGER), f"/?tenant={corpus.slug}&q=harwick+valve")

    assert corpus.slug not in shown
    assert TEXT not in shown


def test_a_team_lead_and_a_stranger_see_no_corpus(corpus: TenantFacts) -> None:
    assert corpus.slug not in page(make_member(corpus, role=Role.LEAD))
    assert corpus.slug not in page(make_user())


def test_head_is_empty() -> None:
    answer = Client().head("/")

    assert (answer.status_code, answer.content) == (200, b"")


def test_nothing_but_reading_is_taken() -> None:
    assert Client().post("/").status_code == 405


def test_signing_in_without_a_page_in_mind_leads_to_the_admin(tenant: TenantFacts) -> None:
    user = make_member(tenant, role=Role.VIEWER)
    answer = Client().post("/admin/login/", {"username": user.username, "password": "a long password"})

    assert (answer.status_code, answer.headers["location"]) == (302, "/admin/")
