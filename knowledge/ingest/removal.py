"""Taking pages out of the corpus on request."""

from __future__ import annotations

from knowledge import index
from knowledge.ingest.sources import WIKI
from knowledge.models import Page
from tenants import audit
from tenants.scope import HasTenantId, tenant_scope


class NothingNamed(Exception):
    """Neither a path nor a source was given: name what is to be deleted."""


def delete_documents(
    tenant: HasTenantId, *, path: str | None = None, source: str | None = None, actor: str = ""
) -> int:
    """Delete pages by path, by source, or by both; returns how many chunks went.

    A path alone covers every source but the wiki's hand-written pages. Raises NothingNamed.
    """
    if path is None and source is None:
        raise NothingNamed("path or source: give at least one")
    return _delete(tenant, path=path, source=source, actor=actor, action="documents.delete")


def flush(tenant: HasTenantId, *, source: str | None = None, actor: str = "") -> int:
    """Delete the pages of a source, or of every source but the wiki; returns how many chunks went."""
    return _delete(tenant, path=None, source=source, actor=actor, action="knowledge.flush")


def _delete(tenant: HasTenantId, *, path: str | None, source: str | None, actor: str, action: str) -> int:
    with tenant_scope(tenant):
        pages = Page.objects.filter(tenant_id=tenant.id)
        pages = pages.exclude(source__name=WIKI) if source is None else pages.filter(source__name=source)
        if path is not None:
            pages = pages.filter(path=path)
        ids = list(pages.values_list("id", flat=True))
    if not ids:
        return 0
    deleted = index.delete_pages(tenant, page_ids=ids)
    with tenant_scope(tenant):
        detail = {"path": path, "source": source, "pages": len(ids), "chunks": deleted}
        audit.record(tenant, actor or "key", action=action, subject=path or source or "", detail=detail)
    return deleted
