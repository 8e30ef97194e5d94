"""Keys: what they open, and when they stop."""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from typing import cast

import pytest
from django.db import connections
from django.utils import timezone

from tenants.callers import CALLERS, Miss, cached_caller
from tenants.facts import TenantFacts
from tenants.filters import KnowledgeFilter
from tenants.keys import (
    USE_NOTED_EVERY,
    BadKey,
    KeyOptions,
    UnknownKey,
    create_key,
    parse_key,
    resolve,
    revoke_key,
    rotate_key,
)
from tenants.models import Key, KeySecret
from tenants.scope import tenant_scope
from tests.make import make_key
from tests.waiting import until


def test_it_works(tenant: TenantFacts) -> None:
    text = make_key(tenant, team="blue", scopes=("query",))
    caller = resolve(text)
    assert caller is not None
    assert (caller.tenant.slug, caller.team, caller.scopes) == (tenant.slug, "blue", frozenset({"query"}))


def test_the_text_has_the_promised_form(tenant: TenantFacts) -> None:
    assert re.fullmatch(r"kb_sk_[A-Za-z0-9]+_[A-Za-z0-9]{43}", make_key(tenant))


def test_the_database_holds_no_secret(tenant: TenantFacts) -> None:
    secret = make_key(tenant).rpartition("_")[2]
    with connections["owner"].cursor() as cursor:
        cursor.execute("SELECT k::text || s::text FROM tenants_key k JOIN tenants_keysecret s ON s.key_id = k.id")
        stored = "".join(row[0] for row in cursor.fetchall())
    assert stored
    assert secret not in stored
    assert secret.encode().hex() not in stored


@pytest.mark.parametrize(
    "text", ["", "kb_sk_", "kb_sk_a_", "sk-ant-api03-nothing", "kb_xx_a_b", "kb_sk_a_b\0", "kb_sk_ñ_b"]
)
def test_what_is_no_key_opens_nothing(text: str) -> None:
    assert parse_key(text) is None
    assert resolve(text) is None


def test_a_wrong_secret_opens_nothing(tenant: TenantFacts) -> None:
    text = make_key(tenant)
    assert resolve(text[:-4] + ("aaaa" if not text.endswith("aaaa") else "bbbb")) is None


def test_an_expired_key_opens_nothing(tenant: TenantFacts) -> None:
    assert resolve(make_key(tenant, expires_at=timezone.now() - timedelta(seconds=1))) is None


def test_a_revoked_key_opens_nothing(tenant: TenantFacts) -> None:
    text = make_key(tenant)
    revoke_key(tenant, public_id(text), actor="test")
    assert resolve(text) is None


def test_a_rotated_key_opens_with_both_secrets_for_the_overlap(tenant: TenantFacts) -> None:
    old = make_key(tenant)
    new = rotate_key(tenant, public_id(old), overlap=timedelta(hours=1), actor="test").text
    assert public_id(old) == public_id(new)
    assert resolve(old) is not None
    assert resolve(new) is not None


def test_a_rotated_key_without_overlap_forgets_the_old_secret(tenant: TenantFacts) -> None:
    old = make_key(tenant)
    new = rotate_key(tenant, public_id(old), overlap=timedelta(0), actor="test").text
    assert resolve(old) is None
    assert resolve(new) is not None


def test_a_second_rotation_shortens_the_first_overlap(tenant: TenantFacts) -> None:
    first = make_key(tenant)
    second = rotate_key(tenant, public_id(first), overlap=timedelta(hours=1), actor="test").text
    rotate_key(tenant, public_id(first), overlap=timedelta(0), actor="test")
    assert (resolve(first), resolve(second)) == (None, None)


def test_the_filter_and_models_of_a_key_are_read(tenant: TenantFacts) -> None:
    text = make_key(
        tenant, sources=["docs"], source_types=["doc"], products=["p"], user_facing=True, models=["claude-a"]
    )
    caller = resolve(text)
    assert caller is not None
    assert caller.filter == KnowledgeFilter(sources=("docs",), source_types=("doc",), products=("p",), user_facing=True)
    assert caller.models == ("claude-a",)


def test_a_widget_key_sees_user_facing_pages_only(tenant: TenantFacts) -> None:
    caller = resolve(make_key(tenant, kind="pk", scopes=None, origins=["https://a.example"]))
    assert caller is not None
    assert caller.filter.user_facing
    assert caller.scopes == frozenset({"ask"})


def test_another_tenants_key_is_unknown_here(tenant: TenantFacts, rival: TenantFacts) -> None:
    with pytest.raises(UnknownKey):
        revoke_key(rival, public_id(make_key(tenant)), actor="test")


def test_an_unknown_scope_is_named(tenant: TenantFacts) -> None:
    with pytest.raises(BadKey, match="everything"):
        create_key(tenant, "team", options=KeyOptions(scopes=["everything"]), actor="test")
    with pytest.raises(BadKey, match="requests_per_hour"):
        create_key(tenant, "team", options=KeyOptions(limits={"requests_per_hour": 1}), actor="test")


def test_a_new_team_key_cannot_read_pages_unless_asked(tenant: TenantFacts) -> None:
    caller = resolve(make_key(tenant, scopes=None))
    assert caller is not None
    assert not {"pages", "manage"} & caller.scopes


def test_a_remembered_caller_is_forgotten_on_revocation(tenant: TenantFacts) -> None:
    text = make_key(tenant)
    until(lambda: cached_caller(text) and not isinstance(CALLERS.peek(text), Miss), seconds=10)
    revoke_key(tenant, public_id(text), actor="test")
    until(lambda: cached_caller(text) is None, seconds=1)
    assert isinstance(CALLERS.peek(text), Miss)


def test_the_last_use_of_a_key_is_noted_once_in_a_while(tenant: TenantFacts, rival: TenantFacts) -> None:
    text, unused = make_key(tenant), make_key(tenant)
    resolve(text)
    first = last_use(tenant, text)
    resolve(text)
    again = last_use(tenant, text)
    with tenant_scope(tenant):
        Key.objects.filter(tenant_id=tenant.id).update(last_used_at=timezone.now() - USE_NOTED_EVERY * 2)
    resolve(text)

    assert first is not None
    assert again == first
    assert last_use(tenant, text) > first
    assert last_use(tenant, unused) < first


def last_use(tenant: TenantFacts, text: str) -> datetime:
    """Return when a key was used last, as its staff would see it."""
    with tenant_scope(tenant):
        return cast(datetime, Key.objects.get(tenant_id=tenant.id, public_id=public_id(text)).last_used_at)


def test_unknown_keys_are_not_remembered(tenant: TenantFacts) -> None:
    text = f"kb_sk_nobody_{'x' * 43}"
    assert cached_caller(text) is None
    assert isinstance(CALLERS.peek(text), Miss)


def test_secrets_of_two_tenants_are_apart(tenant: TenantFacts, rival: TenantFacts) -> None:
    make_key(tenant)
    make_key(rival)
    with tenant_scope(tenant):
        assert set(KeySecret.objects.values_list("tenant_id", flat=True)) == {tenant.id}


def public_id(text: str) -> str:
    """Return the part of a key's text that may be shown."""
    return text.rpartition("_")[0]
