"""Blocks are remembered per key, session, question and way of asking; nobody else's are found."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone
from procrastinate.contrib.django import app

from knowledge.models import Chunk
from proxy.gateway.block import Block, Quoted
from proxy.gateway.memory import Memory, Remembered, Slot, purge, read, still_holds, write
from proxy.tasks import KEPT
from tenants.facts import TenantFacts
from tenants.models import Key
from tenants.scope import tenant_scope
from tests.make import make_key
from tests.proxy.pages import index_page


def remembered(words: str = "Known.") -> Remembered:
    return Remembered(Block(words, (Quoted("1", "h"),), 2), timezone.now())


def slot_for(tenant: TenantFacts) -> Slot:
    public_id = make_key(tenant).rsplit("_", 1)[0]
    with tenant_scope(tenant):
        key_id = Key.objects.get(tenant_id=tenant.id, public_id=public_id).id
    return Slot(tenant.id, key_id, "s" * 64, "q" * 64, 0, "message", 6, "f" * 16)


def test_it_works(tenant: TenantFacts) -> None:
    slot, kept = slot_for(tenant), remembered()
    write(slot, kept)

    assert read([slot]) == {slot: kept}


def test_a_later_block_takes_its_place(tenant: TenantFacts) -> None:
    slot = slot_for(tenant)
    write(slot, remembered())
    write(slot, later := remembered("Changed."))

    assert read([slot]) == {slot: later}


@pytest.mark.parametrize(
    "other",
    [
        {"session": "t" * 64},
        {"question": "r" * 64},
        {"occurrence": 1},
        {"placement": "once"},
        {"top_k": 3},
        {"filter": "g" * 16},
    ],
)
def test_another_way_of_asking_finds_nothing(tenant: TenantFacts, other: dict[str, Any]) -> None:
    slot = slot_for(tenant)
    write(slot, remembered())
    asked = replace(slot, **other)

    assert read([asked]) == {asked: None}


def test_another_key_and_another_tenant_find_nothing(tenant: TenantFacts, rival: TenantFacts) -> None:
    slot = slot_for(tenant)
    write(slot, remembered())
    for asked in (replace(slot, key_id=slot_for(tenant).key_id), replace(slot, tenant_id=rival.id)):
        assert read([asked]) == {asked: None}


def test_quoted_chunks_still_hold_until_one_changes(tenant: TenantFacts, rival: TenantFacts) -> None:
    index_page(tenant, "a.md", "First.", "Second.")
    with tenant_scope(tenant):
        rows = Chunk.objects.filter(tenant_id=tenant.id).values_list("id", "text_hash")
        quoted = [Quoted(str(chunk_id), text_hash) for chunk_id, text_hash in rows]

    assert len(quoted) == 2
    assert still_holds(tenant.id, quoted)
    assert not still_holds(tenant.id, [quoted[0], Quoted(quoted[1].chunk_id, "another")])
    assert not still_holds(rival.id, quoted)


def test_old_blocks_are_purged(tenant: TenantFacts) -> None:
    slot, kept = slot_for(tenant), remembered()
    write(slot, replace(kept, created_at=kept.created_at - timedelta(days=40)))
    write(newer := replace(slot, occurrence=1), kept)

    assert purge(tenant.id, before=kept.created_at - timedelta(days=30)) == 1
    assert read([slot, newer]) == {slot: None, newer: kept}


def test_the_worker_forgets_old_blocks_of_every_tenant(tenant: TenantFacts, rival: TenantFacts) -> None:
    old, newer = slot_for(tenant), slot_for(rival)
    write(old, replace(remembered(), created_at=timezone.now() - KEPT - timedelta(hours=1)))
    write(newer, remembered())
    periodic = {periodic.task.name: periodic.task for periodic in app.periodic_registry.periodic_tasks.values()}

    periodic["proxy.forget_blocks"](timestamp=0)

    assert read([old]) == {old: None}
    assert read([newer])[newer] is not None


def test_this_process_keeps_the_newest(tenant: TenantFacts) -> None:
    slot = Slot(tenant.id, 1, "s", "q", 0, "message", 6, "f")
    first, second, third = (replace(slot, occurrence=n) for n in range(3))
    memory, kept = Memory(most=2), remembered()
    memory.keep({first: kept, second: None})
    memory.known([first])
    memory.keep({third: kept})

    assert memory.known([first, second, third]) == {first: kept, third: kept}
