"""One request's database work: what its earlier questions were given, and what its new one finds.

It runs in a thread while the request waits until a deadline. What it has found by then can be read at any
moment; what comes later is dropped, so that a request that went on without knowledge leaves no trace of
any.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

import structlog
from django.db import OperationalError

from knowledge.search import Found, search
from proxy.gateway import memory
from proxy.gateway.memory import Remembered, Slot
from tenants.facts import TenantFacts
from tenants.filters import KnowledgeFilter

_EMBEDDING_SHARE: Final = 0.6  # 90 of 150 ms for the question's vector; without one the text lane alone decides
_LONGEST_QUERY: Final = 4_000  # characters; of a longer question its head and its tail are looked up

log = structlog.get_logger(__name__)


@dataclass(slots=True)
class Lookup:
    """What to look up, and what was found.

    `missing` are slots to read from the table. `own` is the slot of the new question, `remembered` its
    block if this process knows one. `text` is searched within `filter`; "" searches nothing. `deadline` is
    on the monotonic clock.
    """

    tenant: TenantFacts
    missing: Sequence[Slot]
    own: Slot | None
    remembered: Remembered | None
    text: str
    filter: KnowledgeFilter | None
    top_k: int
    deadline: float

    recalled: dict[Slot, Remembered | None] = field(default_factory=dict)
    reused: Remembered | None = None
    found: Found | None = None
    failed: bool = False
    abandoned: bool = False

    @property
    def is_needed(self) -> bool:
        """Whether there is anything to ask the database."""
        return bool(self.missing or self.own)

    def run(self) -> None:
        """Do the work, in a thread. A failure is logged and means: no knowledge."""
        try:
            self.recalled = memory.read(self.missing)
            if self.own is not None and not self._is_late():
                self._answer_own(self.own)
        except Exception as error:  # the request goes on without knowledge, whatever broke
            self.failed = True
            known = isinstance(error, OperationalError)  # no connection, or cancelled at its deadline
            log.warning(
                "knowledge look-up failed",
                tenant=self.tenant.slug,
                error=type(error).__name__,
                exc_info=not known,
            )

    def _answer_own(self, own: Slot) -> None:
        remembered = self.remembered or self.recalled.get(own)
        if remembered is not None and remembered.is_recent():
            if memory.still_holds(self.tenant.id, remembered.block.chunks):
                self.reused = remembered
                return
            if self._is_late():
                return
        if self.text and self.filter is not None:
            self.found = self._search(self.filter)

    def _search(self, allowed: KnowledgeFilter) -> Found:
        left = self.deadline - time.monotonic()
        return search(
            self.tenant,
            searchable(self.text),
            filter=allowed,
            top_k=2 * self.top_k,  # equal texts are given once
            min_evidence=self.tenant.gate / 2,
            embed_timeout=min(left, _EMBEDDING_SHARE * self.tenant.search_deadline_ms / 1000),
            statement_timeout_ms=max(1, int(left * 1000)),
        )

    def _is_late(self) -> bool:
        return self.abandoned or time.monotonic() >= self.deadline


def searchable(text: str) -> str:
    """Return a question as it can be looked up: without NUL and lone surrogates, and not too long."""
    if len(text) > _LONGEST_QUERY:
        text = f"{text[: _LONGEST_QUERY // 2]}\n{text[-_LONGEST_QUERY // 2 :]}"
    return text.replace("\0", " ").encode("utf-8", "replace").decode()
