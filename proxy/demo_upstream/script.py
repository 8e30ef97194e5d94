"""What the stand-in does with the requests to come, as tests and benchmarks tell it over HTTP."""

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Literal, get_args

Kind = Literal["answer", "text", "tools", "error", "stream_error", "cut"]


class BadScript(Exception):
    """A behaviour can't be read; the message says why."""


@dataclass(frozen=True)
class Behaviour:
    """How one request is answered.

    kind: "answer" from the passages in the request; "text" (`text`); "tools" (`tools`: [{"name", "input"}],
    after `text` and `thinking`); "error" (`status`, `type`, `message`, or `body` as it is); "stream_error"
    (an error event after `after` events); "cut" (the connection is cut after `after` events, -1: before any
    answer). For all: `match` (only requests with these characters in their body), `headers`, `usage` and
    `delta_usage` (overrule what is reported), `stop_reason`, `delay` (seconds before the status line),
    `first_delay` (before the first event or the body), `gap` (between events), `noise` (an unknown event, a
    comment and a nameless one).
    """

    kind: Kind = "answer"
    text: str = ""
    thinking: str = ""
    tools: list[dict[str, Any]] = field(default_factory=list)
    status: int = 500
    type: str = ""
    message: str = "scripted fault"
    body: str | None = None
    after: int = 4
    match: str = ""
    headers: dict[str, str] = field(default_factory=dict)
    usage: dict[str, Any] = field(default_factory=dict)
    delta_usage: dict[str, Any] | None = None
    stop_reason: str = ""
    delay: float = 0.0
    first_delay: float = 0.0
    gap: float = 0.0
    noise: bool = False


DEFAULT = Behaviour()


class Script:
    """The behaviours to come, in order, and the one for every other request."""

    def __init__(self) -> None:
        self.default = DEFAULT
        self._next: deque[Behaviour] = deque()

    def take(self, body: str) -> Behaviour:
        """Return the behaviour for a request and use it up."""
        for behaviour in self._next:
            if behaviour.match in body:
                self._next.remove(behaviour)
                return behaviour
        return self.default if self.default.match in body else DEFAULT

    def read(self, order: object) -> None:
        """Take an order: a list of next behaviours, or {"next": [...], "default": {...}, "reset": true}.

        Raises BadScript for anything else.
        """
        given = {"next": order} if isinstance(order, list) else order
        if not isinstance(given, dict) or set(given) - {"next", "default", "reset", "advance_seconds"}:
            raise BadScript("give a list of behaviours, or an object with next, default, reset, advance_seconds")
        if given.get("reset"):
            self.default = DEFAULT
            self._next.clear()
        if "default" in given:
            self.default = behaviour_of(given["default"] or {})
        coming = given.get("next", [])
        if not isinstance(coming, list):
            raise BadScript("next: give a list of behaviours")
        self._next += [behaviour_of(item) for item in coming]


def behaviour_of(value: object) -> Behaviour:
    """Read a behaviour; raises BadScript for an unknown kind or field."""
    if not isinstance(value, Mapping):
        raise BadScript(f"a behaviour is an object, not {value!r}")
    names = {item.name for item in fields(Behaviour)}
    if unknown := set(value) - names:
        raise BadScript(f"unknown: {', '.join(sorted(map(str, unknown)))}; known: {', '.join(sorted(names))}")
    if value.get("kind", "answer") not in get_args(Kind):
        raise BadScript(f"kind: use one of {', '.join(get_args(Kind))}")
    return Behaviour(**value)
