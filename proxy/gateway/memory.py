"""Which block a question was given, so that every later request of its session carries the same bytes.

A small cache in this process in front of the table `RememberedBlock`. Lost memory means that no block is
put back: one miss of upstream's prompt cache, never an error.
"""

import hashlib
import threading
from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final
from uuid import UUID

from django.utils import timezone

from knowledge.models import Chunk
from proxy.gateway.block import Block, Quoted
from proxy.gateway.classify import Question
from proxy.gateway.wishes import Wishes
from proxy.models import RememberedBlock
from tenants.facts import Caller
from tenants.scope import tenant_scope

_MOST: Final = 10_000  # blocks are about 4 kB, so at most some 40 MB
# Clients retry within minutes. Later than this, a question that stands last in its request is asked anew,
# so that one-shot chats without a session see pages that were added since.
RETRY_WINDOW: Final = timedelta(hours=1)


@dataclass(frozen=True, slots=True)
class Slot:
    """Whose question it is and how it was to be answered: what a remembered block is found by."""

    tenant_id: UUID
    key_id: int
    session: str
    question: str
    occurrence: int
    placement: str
    top_k: int
    filter: str


@dataclass(frozen=True, slots=True)
class Remembered:
    """A block and when it was written."""

    block: Block
    created_at: datetime

    def is_recent(self) -> bool:
        """Whether a request that asks the same again may be a client's retry."""
        return timezone.now() - self.created_at < RETRY_WINDOW


def slot_of(caller: Caller, question: Question, wishes: Wishes) -> Slot:
    """Return where a question's block is remembered."""
    session = hashlib.sha256(question.session.encode("utf-8", "surrogatepass")).hexdigest()
    return Slot(
        caller.tenant.id,
        caller.key_id,
        session,
        question.digest,
        question.occurrence,
        wishes.placement,
        wishes.top_k,
        wishes.fingerprint,
    )


class Memory:
    """The newest blocks of this process; None stands for a question known to have none."""

    def __init__(self, most: int = _MOST) -> None:
        self._most = most
        self._lock = threading.Lock()
        self._kept: OrderedDict[Slot, Remembered | None] = OrderedDict()

    def known(self, slots: Iterable[Slot]) -> dict[Slot, Remembered | None]:
        """Return what is known of these slots; a slot that isn't there has to be read from the table."""
        with self._lock:
            found = {slot: self._kept[slot] for slot in slots if slot in self._kept}
            for slot in found:
                self._kept.move_to_end(slot)
        return found

    def keep(self, found: Mapping[Slot, Remembered | None]) -> None:
        """Remember blocks, or that there is none."""
        with self._lock:
            for slot, remembered in found.items():
                self._kept[slot] = remembered
                self._kept.move_to_end(slot)
            while len(self._kept) > self._most:
                self._kept.popitem(last=False)

    def forget(self) -> None:
        """Forget everything in this process."""
        with self._lock:
            self._kept.clear()


MEMORY: Final = Memory()


def read(slots: Sequence[Slot]) -> dict[Slot, Remembered | None]:
    """Read slots of one key from the table, in one query."""
    if not slots:
        return {}
    tenant_id, key_id = slots[0].tenant_id, slots[0].key_id
    with tenant_scope(tenant_id):
        rows = list(
            RememberedBlock.objects.filter(
                tenant_id=tenant_id,
                key_id=key_id,
                session__in={slot.session for slot in slots},
                question__in={slot.question for slot in slots},
            )
        )
    found = {_slot_of(row): _remembered(row) for row in rows}
    return {slot: found.get(slot) for slot in slots}


def write(slot: Slot, remembered: Remembered) -> None:
    """Write a block to the table, over an earlier one of the same question."""
    row = RememberedBlock(
        tenant_id=slot.tenant_id,
        key_id=slot.key_id,
        session=slot.session,
        question=slot.question,
        occurrence=slot.occurrence,
        placement=slot.placement,
        top_k=slot.top_k,
        filter=slot.filter,
        text=remembered.block.text,
        chunks=[[quoted.chunk_id, quoted.content_hash] for quoted in remembered.block.chunks],
        tokens=remembered.block.tokens,
        created_at=remembered.created_at,
    )
    with tenant_scope(slot.tenant_id):
        RememberedBlock.objects.bulk_create(
            [row],
            update_conflicts=True,
            unique_fields=[
                "tenant",
                "key",
                "session",
                "question",
                "occurrence",
                "placement",
                "top_k",
                "filter",
            ],
            update_fields=["text", "chunks", "tokens", "created_at"],
        )


def still_holds(tenant_id: UUID, chunks: Sequence[Quoted]) -> bool:
    """Say whether every quoted chunk still exists with the same content."""
    with tenant_scope(tenant_id):
        ids = [int(quoted.chunk_id) for quoted in chunks]
        rows = Chunk.objects.filter(tenant_id=tenant_id, id__in=ids).values_list("id", "text_hash")
        now = {str(chunk_id): text_hash for chunk_id, text_hash in rows}
    return all(now.get(quoted.chunk_id) == quoted.content_hash for quoted in chunks)


def purge(tenant_id: UUID, *, before: datetime) -> int:
    """Delete blocks of a tenant that were written before a moment; return how many."""
    with tenant_scope(tenant_id):
        deleted, _ = RememberedBlock.objects.filter(tenant_id=tenant_id, created_at__lt=before).delete()
    return deleted


def _slot_of(row: RememberedBlock) -> Slot:
    return Slot(
        row.tenant_id,
        row.key_id,
        row.session,
        row.question,
        row.occurrence,
        row.placement,
        row.top_k,
        row.filter,
    )


def _remembered(row: RememberedBlock) -> Remembered:
    chunks = tuple(Quoted(chunk_id, content_hash) for chunk_id, content_hash in row.chunks)
    return Remembered(Block(row.text, chunks, row.tokens), row.created_at)
