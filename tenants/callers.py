"""Callers by key, remembered in this process and forgotten as soon as their tenant changes.

A dedicated thread listens for PostgreSQL's NOTIFY. While it is not connected nothing is remembered, so a
revocation holds from the next request on even when the listener is down; a short age limit and the
expiry of keys and secrets are checked on every use besides.
"""

from __future__ import annotations

import hashlib
import threading
import time
from collections import OrderedDict
from dataclasses import dataclass
from typing import Final
from uuid import UUID

import psycopg
import structlog
from django.db import DEFAULT_DB_ALIAS, connections
from django.utils import timezone
from psycopg import sql

from tenants.changes import CHANNEL
from tenants.facts import Caller
from tenants.keys import parse_key, resolve

_MOST = 10_000
_SECONDS = 30.0  # an expired secret of a rotation is noticed within this time
_RECONNECT_SECONDS = 1.0
_POLL_SECONDS = 0.5
log = structlog.get_logger(__name__)


class Miss:
    """Nothing is remembered of this key: it has to be resolved."""


MISS: Final = Miss()


@dataclass(frozen=True, slots=True)
class _Entry:
    caller: Caller
    since: float


class CallerCache:
    """Remembers callers of known keys; unknown keys are never remembered, so they cannot fill it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._entries: OrderedDict[bytes, _Entry] = OrderedDict()
        self._generation = 0
        self._listening = threading.Event()
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def peek(self, text: str) -> Caller | Miss | None:
        """Return the caller without touching the database, MISS when not remembered, None for no key of ours."""
        if parse_key(text) is None:
            return None
        with self._lock:
            entry = self._entries.get(_name(text))
        if entry is None or not self._listening.is_set() or time.monotonic() - entry.since > _SECONDS:
            return MISS
        expires = entry.caller.expires_at
        return MISS if expires is not None and expires <= timezone.now() else entry.caller

    def get(self, text: str) -> Caller | None:
        """Return the caller, from memory or from the database; None when the key opens nothing."""
        found = self.peek(text)
        if not isinstance(found, Miss):
            return found
        self.start()
        generation = self._generation
        caller = resolve(text)
        with self._lock:
            # A change announced while we were reading may be newer than what we read.
            if caller is not None and generation == self._generation and self._listening.is_set():
                self._entries[_name(text)] = _Entry(caller, time.monotonic())
                self._entries.move_to_end(_name(text))
                while len(self._entries) > _MOST:
                    self._entries.popitem(last=False)
        return caller

    def forget(self, tenant_id: UUID | None = None) -> None:
        """Forget a tenant's callers, or all."""
        with self._lock:
            self._generation += 1
            gone = [
                name
                for name, entry in self._entries.items()
                if tenant_id is None or entry.caller.tenant.id == tenant_id
            ]
            for name in gone:
                del self._entries[name]

    def start(self) -> None:
        """Start listening, once per process."""
        with self._lock:
            if self._thread is not None and self._thread.is_alive():
                return
            self._stop.clear()
            self._thread = threading.Thread(target=self._listen, name="tenant-changes", daemon=True)
            self._thread.start()

    def stop(self) -> None:
        """Stop listening and forget everything."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join(timeout=5)
        self.forget()

    def _listen(self) -> None:
        while not self._stop.is_set():
            try:
                self._listen_once()
            except psycopg.Error as error:
                log.warning("tenant changes: not listening", error=type(error).__name__)
            finally:
                self._listening.clear()
                self.forget()
            self._stop.wait(_RECONNECT_SECONDS)

    def _listen_once(self) -> None:
        params = connections[DEFAULT_DB_ALIAS].get_connection_params()
        wanted = {name: params[name] for name in ("host", "port", "user", "password", "dbname") if params.get(name)}
        with psycopg.connect(**wanted, autocommit=True, connect_timeout=10, keepalives_idle=10) as connection:
            connection.execute(sql.SQL("LISTEN {}").format(sql.Identifier(CHANNEL)))
            self._listening.set()
            while not self._stop.is_set():
                for note in connection.notifies(timeout=_POLL_SECONDS):
                    self.forget(UUID(note.payload))


def _name(text: str) -> bytes:
    return hashlib.sha256(text.encode()).digest()


CALLERS: Final = CallerCache()


def cached_caller(text: str) -> Caller | None:
    """Return who a key's text stands for, remembered where possible."""
    return CALLERS.get(text)


def peek(text: str) -> Caller | Miss | None:
    """Return the remembered caller without touching the database (for asynchronous code), or MISS."""
    return CALLERS.peek(text)
