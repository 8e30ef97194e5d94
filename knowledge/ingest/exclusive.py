"""Doing something in one process at a time, whatever becomes of the process."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager

from django.db import DEFAULT_DB_ALIAS, connections

from tenants.scope import HasTenantId


@contextmanager
def held(name: str) -> Iterator[bool]:
    """Hold the name against all other processes for the block; gives False when another one has it.

    A session lock of PostgreSQL on a connection of its own: it needs no transaction that stays open, and
    a killed process lets go of it at once.
    """
    connection = connections[DEFAULT_DB_ALIAS].copy()
    try:
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_try_advisory_lock(%s)", [_number(name)])
            taken = bool(cursor.fetchone()[0])
            try:
                yield taken
            finally:
                if taken:
                    cursor.execute("SELECT pg_advisory_unlock(%s)", [_number(name)])
    finally:
        connection.close()


def hold_page(tenant: HasTenantId, *, source_id: int, path: str) -> None:
    """Keep every other ingest off a page until the current transaction ends; waits for its turn."""
    with connections[DEFAULT_DB_ALIAS].cursor() as cursor:
        cursor.execute("SELECT pg_advisory_xact_lock(%s)", [_number(f"ingest {tenant.id} {source_id} {path}")])


def _number(name: str) -> int:
    return int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], signed=True)
