"""Times and spans as they are typed on a command line."""

from __future__ import annotations

import re
from argparse import ArgumentTypeError
from datetime import UTC, datetime, timedelta

from django.utils import timezone

_SPAN = re.compile(r"^(\d{1,6})([smhdw])$")
_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}


def span(text: str) -> timedelta:
    """Parse `90s`, `15m`, `24h`, `30d` or `2w`; `0` is none."""
    if text == "0":
        return timedelta(0)
    found = _SPAN.match(text.strip().lower())
    if found is None:
        raise ArgumentTypeError(f"{text!r} is no span; use 24h or 30d")
    return timedelta(**{_UNITS[found[2]]: int(found[1])})


def moment(text: str) -> datetime:
    """Parse an ISO date or time (UTC unless it says otherwise), or a span from now on."""
    if _SPAN.match(text.strip().lower()):
        return timezone.now() + span(text)
    try:
        found = datetime.fromisoformat(text)
    except ValueError as error:
        raise ArgumentTypeError(f"{text!r} is no time; use 2027-01-31, 30d or 24h") from error
    found = found if found.tzinfo else found.replace(tzinfo=UTC)
    if found <= timezone.now():
        raise ArgumentTypeError(f"{text} is over")
    return found
