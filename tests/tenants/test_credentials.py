"""Sealed credentials open in their own row only."""

from uuid import uuid4

import pytest
from pytest_django import Settings

from tenants.credentials import CannotOpen, NoCredentialKey, seal, unseal
from tenants.facts import TenantFacts
from tenants.models import Tenant
from tenants.registry import read_facts, set_tenant
from tenants.scope import tenant_scope


def test_it_works() -> None:
    tenant = uuid4()
    assert unseal(tenant, seal(tenant, "sk-secret", place="t|c"), place="t|c") == "sk-secret"


def test_nothing_stays_nothing() -> None:
    assert seal(uuid4(), "", place="t|c") == b""
    assert unseal(uuid4(), b"", place="t|c") == ""


def test_another_tenant_cannot_open_it() -> None:
    sealed = seal(uuid4(), "sk-secret", place="t|c")
    with pytest.raises(CannotOpen):
        unseal(uuid4(), sealed, place="t|c")


def test_another_place_cannot_open_it() -> None:
    tenant = uuid4()
    with pytest.raises(CannotOpen):
        unseal(tenant, seal(tenant, "sk-secret", place="t|c"), place="t|d")


def test_an_older_key_still_opens(settings: Settings) -> None:
    tenant = uuid4()
    settings.KB_CREDENTIAL_KEYS = (f"k1:{'11' * 32}",)
    sealed = seal(tenant, "sk-secret", place="t|c")
    settings.KB_CREDENTIAL_KEYS = (f"k2:{'22' * 32}", f"k1:{'11' * 32}")
    assert unseal(tenant, sealed, place="t|c") == "sk-secret"
    settings.KB_CREDENTIAL_KEYS = (f"k2:{'22' * 32}",)
    with pytest.raises(CannotOpen):
        unseal(tenant, sealed, place="t|c")


def test_a_missing_key_is_named(settings: Settings) -> None:
    settings.KB_CREDENTIAL_KEYS = ()
    with pytest.raises(NoCredentialKey, match="KB_CREDENTIAL_KEYS"):
        seal(uuid4(), "sk-secret", place="t|c")


def test_the_database_holds_a_sealed_upstream_key(tenant: TenantFacts) -> None:
    set_tenant(tenant, {"upstream_key": "sk-ant-example"}, actor="test")
    with tenant_scope(tenant):
        stored = bytes(Tenant.objects.get(id=tenant.id).upstream_key)
    assert b"sk-ant-example" not in stored
    facts = read_facts(tenant.id)
    assert facts.upstream_key == "sk-ant-example"
    assert "sk-ant-example" not in repr(facts)
