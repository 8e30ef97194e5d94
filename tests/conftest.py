"""The cast of every test: a tenant, its rival, and keys of both, in one real database.

Tests don't roll back: several connections and processes take part. Each makes its own tenants instead,
so that nothing it does can meet another test.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from django.core.management import call_command
from django.db import connections
from pytest_django import DjangoDbBlocker

from tenants.callers import CALLERS
from tenants.facts import TenantFacts
from tenants.ledger import USAGE
from tests.make import make_tenant


@pytest.fixture(scope="session", autouse=True)
def database(django_db_blocker: DjangoDbBlocker) -> Iterator[None]:
    """Migrate as kb_owner, once, and let every test reach the database."""
    with django_db_blocker.unblock():
        call_command("migrate", database="owner", verbosity=0)
        yield
        CALLERS.stop()
        USAGE.drain()
        for connection in connections.all():
            connection.close()
            if connection.alias == "default":
                connection.close_pool()  # type: ignore[attr-defined]


@pytest.fixture
def tenant() -> TenantFacts:
    """A fresh tenant."""
    return make_tenant()


@pytest.fixture
def rival() -> TenantFacts:
    """Another fresh tenant, who must not get in."""
    return make_tenant("rival")
