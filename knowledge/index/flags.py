"""What is said about pages can change without indexing them again: flags lie on the page."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.utils import timezone

from knowledge.index.publishing import IndexedTenant, PageFields, publish
from knowledge.index.statistics import bump_version
from knowledge.models import FLAGS, EmbeddingSet, Page
from tenants.scope import tenant_scope


class UnknownFlag(Exception):
    """A flag was named that pages don't have; the message lists those they have."""


def set_flags(tenant: IndexedTenant, *, page_ids: Sequence[int], by_hand: bool, **flags: Any) -> int:
    """Set flags of pages; returns how many pages changed.

    By hand, they outlive every later ingest, and setting the value a page has already keeps it so too. Not
    by hand, pages whose flag was set by hand keep theirs. language makes the page's lexemes anew. Raises
    UnknownFlag.
    """
    unknown = sorted(set(flags) - set(FLAGS))
    if unknown:
        raise UnknownFlag(f"pages have no {', '.join(unknown)}; they have {', '.join(FLAGS)}")
    with tenant_scope(tenant) as tenant_id:
        pages = Page.objects.filter(tenant_id=tenant_id, id__in=page_ids).order_by("id").select_for_update()
        rows = list(pages.defer("body"))
        changed = [row for row in rows if _set(tenant, row, by_hand=by_hand, flags=flags)]
        if changed:
            bump_version(tenant_id)
        return len(changed)


def _set(tenant: IndexedTenant, row: Page, *, by_hand: bool, flags: dict[str, Any]) -> bool:
    mine = {name: value for name, value in flags.items() if by_hand or name not in row.hand_flags}
    hand = sorted({*row.hand_flags, *mine}) if by_hand else row.hand_flags
    differing = {name: value for name, value in mine.items() if getattr(row, name) != value}
    if "language" in differing:
        _read_as(tenant, row, language=differing["language"])
    if not differing and hand == row.hand_flags:
        return False
    Page.objects.filter(tenant_id=row.tenant_id, id=row.id).update(
        **differing, hand_flags=hand, updated_at=timezone.now()
    )
    return bool(differing)


def _read_as(tenant: IndexedTenant, row: Page, *, language: str) -> None:
    """Make a page's lexemes in another language, by publishing it as it is."""
    live = EmbeddingSet.objects.filter(tenant_id=row.tenant_id, state=EmbeddingSet.State.LIVE)
    name = live.values_list("model__name", flat=True).first()
    if name is None or "language" in row.hand_flags:
        Page.objects.filter(id=row.id, tenant_id=row.tenant_id).update(
            hand_flags=[flag for flag in row.hand_flags if flag != "language"]
        )
    if name is None:
        return
    page = PageFields(
        source_id=row.source_id,
        path=row.path,
        title=row.title,
        body=row.body,
        language=language,
        content_hash=row.content_hash,
        made_by=row.made_by,
        flags={flag: getattr(row, flag) for flag in FLAGS if flag != "language"},
        url=row.url,
    )
    publish(tenant, page=page, model_id=name)
