"""Ids of rows that belong to a tenant."""

import secrets
import threading
import time

_RANDOM_BITS = 20
_lock = threading.Lock()
_last = 0


def new_id() -> int:
    """Return a 63-bit id that grows with time: milliseconds since 1970, then 20 random bits.

    A sequence shared by all tenants would tell each how much the others write. Ids need to be unique
    within their tenant only (the database's keys are ``(tenant_id, id)``); within one process they
    never repeat, and two processes that write the same tenant in the same millisecond meet with a
    chance of about one in a million, which the primary key then refuses.
    """
    global _last
    fresh = (time.time_ns() // 1_000_000 << _RANDOM_BITS) | secrets.randbits(_RANDOM_BITS)
    with _lock:
        _last = max(_last + 1, fresh)
        return _last
