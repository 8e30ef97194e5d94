"""Tenants: made once, found by slug, changed by checked settings."""

import pytest

from tenants.facts import TenantFacts
from tenants.models import AuditEntry, Tenant
from tenants.registry import (
    BadTenantSetting,
    TenantExists,
    UnknownTenant,
    create_tenant,
    find_tenant,
    read_facts,
    set_tenant,
    tenant_ids,
)
from tenants.scope import tenant_scope
from tests.make import make_tenant


def test_it_works() -> None:
    made = make_tenant(name="acme")
    assert find_tenant(made.slug) == made
    assert tenant_ids()[made.slug] == made.id


def test_a_slug_is_taken_once(tenant: TenantFacts) -> None:
    with pytest.raises(TenantExists, match=tenant.slug):
        create_tenant(tenant.slug, actor="test")


def test_an_unknown_slug_is_named() -> None:
    with pytest.raises(UnknownTenant, match="nowhere-at-all"):
        find_tenant("nowhere-at-all")


@pytest.mark.parametrize("slug", ["", "Upper", "a b", "-a", "a-", "a" * 64, "ñ", "a/b", "a\0"])
def test_a_bad_slug_is_refused(slug: str) -> None:
    with pytest.raises(BadTenantSetting, match="slug"):
        create_tenant(slug, actor="test")


def test_settings_are_changed_and_audited(tenant: TenantFacts) -> None:
    facts = set_tenant(tenant, {"gate": "0.3", "bring_your_own_key": "on", "placement": "once"}, actor="ana")
    assert (facts.gate, facts.bring_your_own_key, facts.placement) == (0.3, True, "once")
    with tenant_scope(tenant):
        entry = AuditEntry.objects.get(tenant_id=tenant.id, action="tenant.set")
    assert (entry.actor, entry.detail) == ("ana", {"names": ["bring_your_own_key", "gate", "placement"]})


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("gate", "0.9"),
        ("gate", "much"),
        ("dense_weight", "-1"),
        ("placement", "everywhere"),
        ("unmarked_pages", "hidden"),
        ("upstream_url", "http://example.com"),
        ("upstream_url", "ftp://example.com"),
        ("bring_your_own_key", "perhaps"),
        ("colour", "red"),
        ("id", "1"),
    ],
)
def test_a_bad_setting_is_named_and_changes_nothing(tenant: TenantFacts, name: str, value: str) -> None:
    with pytest.raises(BadTenantSetting, match=name):
        set_tenant(tenant, {"product": "changed", name: value}, actor="test")
    assert read_facts(tenant.id) == tenant


def test_a_tenant_sees_itself_only(tenant: TenantFacts, rival: TenantFacts) -> None:
    with tenant_scope(tenant):
        assert [row.slug for row in Tenant.objects.all()] == [tenant.slug]
