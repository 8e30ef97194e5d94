"""What was used: one row per answer of an upstream, written in batches beside the requests."""

from __future__ import annotations

import queue
import threading
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from datetime import datetime
from typing import Any, Final
from uuid import UUID

import structlog
from django.db import DatabaseError, DataError, IntegrityError, connection
from django.utils import timezone

from tenants.models import Usage
from tenants.scope import tenant_scope

_BATCH = 200
_FLUSH_SECONDS = 0.5
_MOST_WAITING = 100_000
_LARGEST = 2**31 - 1  # what the columns take
log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class UsageRecord:
    """One answer: who asked, what upstream counted (tokens), how long it took (milliseconds)."""

    tenant_id: UUID
    request_id: str
    key_public_id: str
    team: str
    status: int
    x_cache: str
    kind: str = "gateway"
    model: str = ""
    session_id: str = ""
    outcome: str = "complete"
    input_tokens: int = 0
    output_tokens: int = 0
    cache_write_5m_tokens: int = 0
    cache_write_1h_tokens: int = 0
    cache_read_tokens: int = 0
    server_tool_use: dict[str, Any] = field(default_factory=dict)
    knowledge_tokens: int = 0
    upstream_ms: float = 0.0
    total_ms: float = 0.0
    ttfb_ms: float | None = None
    overhead_ms: float = 0.0
    created_at: datetime = field(default_factory=timezone.now)


def record(rows: Sequence[UsageRecord]) -> None:
    """Write rows, one transaction per tenant. A request id that is there already is left as it is."""
    by_tenant: dict[UUID, list[UsageRecord]] = defaultdict(list)
    for row in rows:
        by_tenant[row.tenant_id].append(row)
    for tenant_id, mine in by_tenant.items():
        with tenant_scope(tenant_id):
            Usage.objects.bulk_create([_row(item) for item in mine], ignore_conflicts=True)


def _row(item: UsageRecord) -> Usage:
    values = {part.name: getattr(item, part.name) for part in fields(item)}
    cut = {"model": 100, "session_id": 100, "team": 100}
    return Usage(
        **{name: _storable(value)[: cut[name]] if name in cut else _storable(value) for name, value in values.items()}
    )


def _storable(value: Any) -> Any:
    """Return what an upstream reported as the columns take it: an upstream may report anything."""
    if isinstance(value, str):
        return value.replace("\0", "")
    if isinstance(value, int):
        return min(max(value, 0), _LARGEST)
    if isinstance(value, dict):
        return {_storable(name): _storable(part) for name, part in value.items()}
    return value


class UsageQueue:
    """Takes rows from requests without making them wait, and writes them from a thread of its own."""

    def __init__(self) -> None:
        self._waiting: queue.Queue[UsageRecord] = queue.Queue(_MOST_WAITING)
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def put(self, row: UsageRecord) -> None:
        """Take a row; it is in the database within about a second."""
        self._start()
        try:
            self._waiting.put_nowait(row)
        except queue.Full:
            log.error("usage rows are lost: the database takes none", request_id=row.request_id)

    def drain(self, timeout: float = 10.0) -> None:
        """Write what is waiting and stop; call it when the process ends."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join(timeout)

    def _start(self) -> None:
        with self._lock:
            if self._thread is None or not self._thread.is_alive():
                self._stop.clear()
                self._thread = threading.Thread(target=self._run, name="usage", daemon=True)
                self._thread.start()

    def _run(self) -> None:
        kept: list[UsageRecord] = []
        try:
            while True:
                kept += self._take()
                if kept and self._write(kept):
                    kept = []
                if self._stop.is_set() and not kept and self._waiting.empty():
                    return
                if kept and self._stop.wait(_FLUSH_SECONDS):
                    kept = [] if self._write(kept) else kept
                    if kept:
                        log.error("usage rows are lost: the database takes none", rows=len(kept))
                        return
        finally:
            connection.close()

    def _take(self) -> list[UsageRecord]:
        rows: list[UsageRecord] = []
        try:
            rows.append(self._waiting.get(timeout=_FLUSH_SECONDS))
            while len(rows) < _BATCH:
                rows.append(self._waiting.get_nowait())
        except queue.Empty:
            pass
        return rows

    def _write(self, rows: Sequence[UsageRecord]) -> bool:
        """Write rows; return False when they have to wait. One that can never be written holds up no other."""
        try:
            try:
                record(rows)
            except (DataError, IntegrityError):
                _write_each(rows)
        except DatabaseError as error:
            log.warning("usage rows wait: the database takes none", rows=len(rows), error=type(error).__name__)
            return False
        finally:
            connection.close()
        return True


def _write_each(rows: Sequence[UsageRecord]) -> None:
    """Write rows one by one, leaving out those that the database refuses for what they hold."""
    for row in rows:
        try:
            record([row])
        except (DataError, IntegrityError) as error:
            log.error("a usage row is lost: the database refuses it", request_id=row.request_id, error=str(error))


USAGE: Final = UsageQueue()
