"""Which sources a key may write to."""

from __future__ import annotations

from proxy.errors import NoPermission
from tenants.facts import Caller

DEFAULT_SOURCE = "api"


def refuse_other_sources(caller: Caller, source: str | None) -> None:
    """Raise NoPermission when the key sees some sources only and this is none of them (None: all of them)."""
    allowed = caller.filter.sources
    if allowed and source not in allowed:
        raise NoPermission(f"This key may write to these sources only: {', '.join(allowed)}. Name one as `source`.")
