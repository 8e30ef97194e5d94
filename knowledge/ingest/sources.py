"""Finding a source by its name, or making it when something is first put into it."""

from __future__ import annotations

from knowledge.models import Source
from tenants.scope import HasTenantId, tenant_scope

WIKI = "wiki"  # the source of hand-written pages: never swept along with the others
LONGEST_NAME = 100


class BadSource(Exception):
    """A source's name is empty, too long, or holds characters that no name has."""


def source_named(tenant: HasTenantId, name: str, *, kind: str) -> Source:
    """Return the tenant's source of that name; a new one gets this kind. Raises BadSource."""
    checked = _checked(name)
    with tenant_scope(tenant):
        source, _ = Source.objects.get_or_create(tenant_id=tenant.id, name=checked, defaults={"kind": kind})
    return source


def known_source(tenant: HasTenantId, name: str) -> Source | None:
    """Return the tenant's source of that name, or None."""
    with tenant_scope(tenant):
        return Source.objects.filter(tenant_id=tenant.id, name=name).first()


def _checked(name: str) -> str:
    text = name.strip()
    if not text or len(text) > LONGEST_NAME:
        raise BadSource(f"source: use a name of 1 to {LONGEST_NAME} characters")
    if not text.isprintable():
        raise BadSource("source: use printable characters only")
    return text
