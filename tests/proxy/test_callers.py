"""Who is calling, and whether they may come in."""

import base64
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest

from proxy.callers import NO_SUCH_KEY, admit, credentials
from proxy.errors import NoPermission, NotAuthenticated
from tenants.facts import Caller, TenantFacts
from tenants.filters import KnowledgeFilter

OURS = "kb_sk_abc123_" + "s" * 43
SECOND = "kb_sk_def456_" + "t" * 43
FOREIGN = "sk-ant-something"


def bearer(key: str) -> tuple[bytes, bytes]:
    return b"authorization", f"Bearer {key}".encode()


def x_api_key(key: str) -> tuple[bytes, bytes]:
    return b"x-api-key", key.encode()


def basic(key: str) -> tuple[bytes, bytes]:
    return b"authorization", b"Basic " + base64.b64encode(f"x:{key}".encode())


def caller(**changes: Any) -> Caller:
    facts: dict[str, Any] = {
        "key_id": 1,
        "public_id": "kb_sk_abc123",
        "kind": "sk",
        "key_name": "",
        "tenant": TenantFacts(id=UUID(int=1), slug="acme"),
        "team_id": 2,
        "team": "team",
        "scopes": frozenset({"messages"}),
        "filter": KnowledgeFilter(),
    }
    return Caller(**{**facts, **changes})


def test_it_works() -> None:
    assert credentials([bearer(OURS)]).ours == OURS
    assert admit(caller(), slug="acme", scope="messages").public_id == "kb_sk_abc123"


@pytest.mark.parametrize(
    ("headers", "ours", "foreign"),
    [
        ([x_api_key(OURS)], OURS, None),
        ([basic(OURS)], OURS, None),
        ([(b"Authorization", b"bearer  " + OURS.encode())], OURS, None),
        ([x_api_key(OURS), bearer(FOREIGN)], OURS, bearer(FOREIGN)),
        ([bearer(OURS), x_api_key(FOREIGN)], OURS, x_api_key(FOREIGN)),
        ([bearer(SECOND), x_api_key(OURS)], OURS, None),
        ([bearer(FOREIGN)], None, bearer(FOREIGN)),
        ([bearer("")], None, (b"authorization", b"Bearer")),
        ([(b"authorization", b"Basic !!!")], None, (b"authorization", b"Basic !!!")),
        ([(b"authorization", b"Bearer \xe9\xe8 x")], None, (b"authorization", b"Bearer \xe9\xe8 x")),
        ([(b"x-api-key", b"")], None, None),
        ([], None, None),
    ],
)
def test_our_key_is_found_among_credentials(
    headers: list[tuple[bytes, bytes]], ours: str | None, foreign: tuple[bytes, bytes] | None
) -> None:
    found = credentials(headers)

    assert (found.ours, found.foreign) == (ours, foreign)


def test_credentials_are_not_shown() -> None:
    assert "s" * 43 not in repr(credentials([bearer(OURS)]))


@pytest.mark.parametrize(
    "who",
    [
        None,
        caller(kind="pk"),
        caller(tenant=TenantFacts(id=UUID(int=2), slug="rival")),
        caller(expires_at=datetime.now(UTC) - timedelta(seconds=1)),
        caller(kind="pk", scopes=frozenset()),
    ],
)
def test_strangers_are_told_the_same(who: Caller | None) -> None:
    with pytest.raises(NotAuthenticated, match="missing or not valid") as refused:
        admit(who, slug="acme", scope="messages")

    assert refused.value.message == NO_SUCH_KEY


def test_a_missing_scope_is_named() -> None:
    with pytest.raises(NoPermission, match="`query`"):
        admit(caller(), slug=None, scope="query")


def test_a_path_that_any_key_may_use() -> None:
    assert admit(caller(scopes=frozenset()), slug=None, scope="")
