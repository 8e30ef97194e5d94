"""Limits of a key or a team, as text and as what is stored."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

LIMITS = (
    "requests_per_minute",
    "tokens_per_minute",
    "concurrent_requests",
    "money_per_day",
    "money_per_month",
)
_MONEY = frozenset({"money_per_day", "money_per_month"})  # US dollars; the others are whole numbers


class BadLimit(Exception):
    """A limit is unknown or no number of 0 or more; the message names it."""


def parse_limits(pairs: Iterable[str]) -> dict[str, float | int | None]:
    """Return limits by name from `NAME=VALUE` texts; None for `NAME=`, which takes the limit away.

    Raises BadLimit.
    """
    found: dict[str, float | int | None] = {}
    for pair in pairs:
        name, _, text = pair.partition("=")
        found[name] = _number(name, text) if text else None
        check_limits({name: found[name]})
    return found


def check_limits(limits: Mapping[str, object]) -> None:
    """Raise BadLimit for the first limit that is unknown or no number of 0 or more."""
    for name, value in limits.items():
        if name not in LIMITS:
            raise BadLimit(f"limit: unknown {name}; use one of {', '.join(LIMITS)}")
        if value is None:
            continue
        right = isinstance(value, int | float if name in _MONEY else int) and not isinstance(value, bool)
        if not right or not 0 <= float(str(value)) < math.inf:
            raise BadLimit(f"limit {name}: use a {'' if name in _MONEY else 'whole '}number of 0 or more")


def _number(name: str, text: str) -> float | int:
    try:
        return float(text) if name in _MONEY else int(text)
    except ValueError as error:
        raise BadLimit(f"limit {name}: {text!r} is no number") from error
