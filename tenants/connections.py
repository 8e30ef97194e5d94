"""Which database role a piece of work runs as."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

OWNER = "owner"
STAFF = "staff"

_alias: ContextVar[str] = ContextVar("database_alias", default="default")


@contextmanager
def connected_as(alias: str) -> Iterator[None]:
    """Send every query of the block through this alias: "staff" for superusers, "owner" for maintenance."""
    token = _alias.set(alias)
    try:
        yield
    finally:
        _alias.reset(token)


def current_alias() -> str:
    """Return the alias that the current block's queries go through."""
    return _alias.get()


class Router:
    """Django's database router: one alias at a time, and tables are made by kb_owner only."""

    def db_for_read(self, model: type[Any], **hints: Any) -> str:
        """Return the alias of the current block."""
        return _alias.get()

    def db_for_write(self, model: type[Any], **hints: Any) -> str:
        """Return the alias of the current block."""
        return _alias.get()

    def allow_relation(self, obj1: Any, obj2: Any, **hints: Any) -> bool:
        """Allow relations: all aliases are roles of the same database."""
        return True

    def allow_migrate(self, db: str, app_label: str, **hints: Any) -> bool:
        """Allow migrations as kb_owner only."""
        return db == OWNER
