"""What tests of the wire share: the stand-in upstream and our application on real ports, and a tenant on
both.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from tenants.facts import TenantFacts
from tenants.registry import set_tenant
from tests.make import make_key, make_tenant
from tests.proxy.demo import Demo, running
from tests.proxy.serving import serving

UPSTREAM_KEY = "sk-ant-test-upstream-credential"


@dataclass(frozen=True)
class Customer:
    """A tenant whose upstream is the stand-in, and a key of it."""

    tenant: TenantFacts
    key: str


def make_customer(upstream: Demo, name: str = "tenant", **settings: str) -> Customer:
    """Make a tenant over the stand-in, with further tenant settings."""
    wanted = {"upstream_url": upstream.url, "upstream_key": UPSTREAM_KEY, **settings}
    tenant = set_tenant(make_tenant(name), wanted, actor="test")
    return Customer(tenant, make_key(tenant))


@pytest.fixture(scope="session")
def started_upstream() -> Iterator[Demo]:
    """The stand-in, started once."""
    with running() as demo:
        yield demo


@pytest.fixture
def upstream(started_upstream: Demo) -> Demo:
    """The stand-in with nothing scripted, logged or cached."""
    started_upstream.reset()
    return started_upstream


@pytest.fixture(scope="session")
def base() -> Iterator[str]:
    """The base URL of our application."""
    with serving() as url:
        yield url


@pytest.fixture
def customer(upstream: Demo) -> Customer:
    """A tenant without any page."""
    return make_customer(upstream)
