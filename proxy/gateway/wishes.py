"""What a request may choose about its knowledge, by headers, within what its key and tenant allow."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal, cast, get_args

from proxy.gateway.classify import Sender
from tenants.facts import Caller
from tenants.filters import KnowledgeFilter

Placement = Literal["message", "once", "system", "off"]
MOST_PASSAGES: Final = 6

_NOTHING = "nothing"


@dataclass(frozen=True, slots=True)
class Wishes:
    """How one request is to be given knowledge.

    `filter` is None when the narrowed filter can match no page; `fingerprint` is its short stable name.
    """

    placement: Placement
    top_k: int
    filter: KnowledgeFilter | None
    fingerprint: str


def wishes(caller: Caller, headers: Mapping[str, str]) -> Wishes:
    """Read the `x-kb-*` headers (lower-case names); one that can't be read is as if it weren't there.

    A key that has knowledge switched off stays off. The filter can only become narrower.
    """
    allowed = caller.placement or caller.tenant.placement
    asked = headers.get("x-kb-knowledge", "").strip().lower()
    placement = asked if asked in get_args(Placement) and caller.placement != "off" else allowed
    narrowed = caller.filter.narrowed(_filter(headers))
    name = narrowed.fingerprint() if narrowed else _NOTHING
    return Wishes(cast(Placement, placement), _top_k(caller, headers), narrowed, name)


def sender(headers: Mapping[str, str]) -> Sender:
    """Read who is sending from a request's headers (lower-case names)."""
    session = headers.get("x-claude-code-session-id", "")
    agent = headers.get("user-agent", "")
    claude_code = bool(session) or agent.startswith("claude-cli/") or headers.get("x-app") == "cli"
    return Sender(claude_code, session, headers.get("x-claude-code-agent-id", ""))


def _top_k(caller: Caller, headers: Mapping[str, str]) -> int:
    most = max(1, min(caller.tenant.top_k, MOST_PASSAGES))
    try:
        return max(1, min(int(headers["x-kb-top-k"]), MOST_PASSAGES))
    except (KeyError, ValueError):
        return most


def _filter(headers: Mapping[str, str]) -> KnowledgeFilter:
    return KnowledgeFilter(
        sources=_names(headers.get("x-kb-sources", "")),
        apps=_names(headers.get("x-kb-app", "")),
        path_prefix=headers.get("x-kb-path-prefix", "").strip(),
    )


def _names(value: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name for part in value.split(",") if (name := part.strip())))
