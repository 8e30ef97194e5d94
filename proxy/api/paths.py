"""Which paths are for programs, which tenant they name, and what those need that this version lacks."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

_TENANT = re.compile(r"/t/(?P<slug>[^/]*)(?P<rest>/.*)?\Z", re.DOTALL)
_ROOTS = ("/v1", "/knowledge", "/mcp", "/widget/v1")
# For people: pages with the reference of the API. They say nothing of any tenant.
REFERENCE = frozenset({"/v1/docs", "/v1/openapi.json"})


@dataclass(frozen=True, slots=True)
class MachinePath:
    """The tenant that a path names (None at the root) and the path below it."""

    slug: str | None
    path: str


@dataclass(frozen=True, slots=True)
class Needs:
    """The scope ("" for any) and the kind of key that a path needs; challenge is what a 401 asks for by header."""

    scope: str
    kind: str = "sk"
    challenge: str = ""


def machine_path(path: str) -> MachinePath | None:
    """Return what a decoded path asks for, None when it is a page for people."""
    if found := _TENANT.match(path):
        return MachinePath(found["slug"], found["rest"] or "/")
    if path in REFERENCE or not any(path == root or path.startswith(f"{root}/") for root in _ROOTS):
        return None
    return MachinePath(None, path)


# Paths whose keys and scopes are checked although nothing answers behind them in this version, so that a
# key says the same before and after an update.
_LATER: Final = (
    (re.compile(r"/v1/ask/?"), Needs("ask")),
    (re.compile(r"/mcp(/.*)?"), Needs("mcp", challenge="Bearer")),
    (re.compile(r"/v1/usage/?"), Needs("manage")),
    (re.compile(r"/v1/receipts(/.*)?"), Needs("")),
    (re.compile(r"(/v1)?/v1/(messages|models|files)(/.*)?"), Needs("messages")),
    (re.compile(r"/widget/v1(/.*)?"), Needs("", kind="pk")),
)


def later(path: str) -> Needs | None:
    """Return what a path needs that belongs to another version or part, None for any other path."""
    return next((needs for pattern, needs in _LATER if pattern.fullmatch(path)), None)
