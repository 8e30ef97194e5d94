"""What part of a tenant's knowledge a key or a request may see."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass
from typing import Any

_LISTS = ("sources", "source_types", "products", "apps")


@dataclass(frozen=True, slots=True)
class KnowledgeFilter:
    """A restriction of pages; an empty field restricts nothing.

    Every list means "one of these". user_facing leaves user-facing pages only.
    """

    sources: tuple[str, ...] = ()
    source_types: tuple[str, ...] = ()
    products: tuple[str, ...] = ()
    apps: tuple[str, ...] = ()
    path_prefix: str = ""
    user_facing: bool = False

    def narrowed(self, other: KnowledgeFilter) -> KnowledgeFilter | None:
        """Return what both allow, or None when that is nothing. Neither can widen the other."""
        lists: dict[str, tuple[str, ...]] = {}
        for name in _LISTS:
            mine, theirs = getattr(self, name), getattr(other, name)
            both = tuple(value for value in mine if value in theirs) if mine and theirs else mine or theirs
            if (mine or theirs) and not both:
                return None
            lists[name] = both
        prefix = max(self.path_prefix, other.path_prefix, key=len)
        if not (prefix.startswith(self.path_prefix) and prefix.startswith(other.path_prefix)):
            return None
        return KnowledgeFilter(**lists, path_prefix=prefix, user_facing=self.user_facing or other.user_facing)

    def fingerprint(self) -> str:
        """Return a short stable name for the restriction: equal filters, equal names."""
        facts: dict[str, Any] = {**asdict(self), **{name: sorted(getattr(self, name)) for name in _LISTS}}
        return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()[:16]


ALL = KnowledgeFilter()
