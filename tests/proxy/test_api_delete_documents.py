"""`DELETE /v1/documents`."""

from __future__ import annotations

import pytest

from tenants.facts import TenantFacts
from tests.make import make_key
from tests.proxy.api import assert_refused, call, fill, index, paths


@pytest.fixture
def key(tenant: TenantFacts) -> str:
    """A key of a tenant with one path in two sources and another page."""
    key = make_key(tenant)
    index(tenant, key, "same.md", "The lorquin wheel.\n", source="one")
    index(tenant, key, "same.md", "The mirabeck wheel.\n", source="two")
    index(tenant, key, "alone ñ.md", "The norvith wheel.\n", source="one")
    return key


def test_it_works(key: str) -> None:
    assert call("DELETE", "/v1/documents?path=alone%20%C3%B1.md", key=key).json == {"deleted": 1}
    assert "alone ñ.md" not in paths(key, "norvith")


def test_a_path_goes_from_every_source(key: str) -> None:
    assert call("DELETE", "/v1/documents?path=same.md", key=key).json == {"deleted": 2}


def test_a_path_of_one_source_goes_alone(key: str) -> None:
    assert call("DELETE", "/v1/documents?path=same.md&source=two", key=key).json == {"deleted": 1}
    assert paths(key, "lorquin")[0] == "same.md"


def test_a_source_goes_whole(key: str) -> None:
    assert call("DELETE", "/v1/documents?source=one", key=key).json == {"deleted": 2}
    assert paths(key, "mirabeck") == ["same.md"]


def test_hand_written_pages_go_by_their_source_only(tenant: TenantFacts, key: str) -> None:
    fill(tenant, ["The wiki page."], source="wiki", folder="wiki")

    assert call("DELETE", "/v1/documents?path=wiki/0.md", key=key).json == {"deleted": 0}
    assert call("DELETE", "/v1/documents?path=wiki/0.md&source=wiki", key=key).json == {"deleted": 1}


@pytest.mark.parametrize("query", ["path=no/such.md", "source=nothing"])
def test_what_is_not_there_deletes_nothing(key: str, query: str) -> None:
    assert call("DELETE", f"/v1/documents?{query}", key=key).json == {"deleted": 0}


@pytest.mark.parametrize("query", ["", "path=", "source=", "path=%00", "path=same.md&sauce=one", "id=5"])
def test_a_request_that_names_nothing_is_refused(key: str, query: str) -> None:
    assert_refused(call("DELETE", f"/v1/documents?{query}", key=key), 400, "invalid_request_error")
    assert call("GET", "/v1/stats", key=key).json["pages"] == 3


def test_a_key_of_some_sources_deletes_no_other(tenant: TenantFacts, key: str) -> None:
    narrow = make_key(tenant, sources=["one"])

    assert_refused(call("DELETE", "/v1/documents?path=same.md", key=narrow), 403, "permission_error", "one")
    assert_refused(call("DELETE", "/v1/documents?source=two", key=narrow), 403, "permission_error", "one")
    assert call("DELETE", "/v1/documents?path=same.md&source=one", key=narrow).json == {"deleted": 1}


def test_the_rival_deletes_nothing_here(rival: TenantFacts, key: str) -> None:
    theirs = make_key(rival)

    assert call("DELETE", "/v1/documents?path=same.md", key=theirs).json == {"deleted": 0}
    assert call("DELETE", "/v1/documents?source=one", key=theirs).json == {"deleted": 0}
    assert call("GET", "/v1/stats", key=key).json["pages"] == 3
