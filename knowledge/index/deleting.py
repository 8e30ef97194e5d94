"""Pages leave the corpus, with everything that was counted for them."""

from __future__ import annotations

import json
from collections.abc import Sequence

from django.db import connection

from knowledge.index.statistics import bump_version
from knowledge.languages import configuration
from knowledge.models import Page
from tenants.scope import HasTenantId, tenant_scope

PER_COMMIT = 200


def delete_pages(tenant: HasTenantId, *, page_ids: Sequence[int]) -> int:
    """Delete pages, 200 in a transaction; returns how many chunks went. Unknown ids are passed over."""
    ids = sorted(set(page_ids))
    pieces = [ids[start : start + PER_COMMIT] for start in range(0, len(ids), PER_COMMIT)]
    return sum(_delete(tenant, piece) for piece in pieces)


def _delete(tenant: HasTenantId, page_ids: Sequence[int]) -> int:
    with tenant_scope(tenant) as tenant_id:
        pages = Page.objects.filter(tenant_id=tenant_id, id__in=page_ids).order_by("id").select_for_update()
        found = dict(pages.values_list("id", "language"))
        if not found:
            return 0
        configurations = {language: configuration(language) for language in found.values()}
        with connection.cursor() as cursor:
            cursor.execute("SELECT kb_delete_pages(%s, %s)", [list(found), json.dumps(configurations)])
            chunks = int(cursor.fetchone()[0])
        bump_version(tenant_id)
        return chunks
