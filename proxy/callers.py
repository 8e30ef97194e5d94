"""Who is calling: finds our key among a request's credentials and decides whether it may come in.

Pure apart from the clock: looking the key up is `tenants.callers`' work, sync or async as the edge needs it.
"""

import base64
import binascii
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime

from proxy.errors import NoPermission, NotAuthenticated
from tenants.facts import Caller
from tenants.keys import parse_key

__all__ = ["NO_SUCH_KEY", "Credentials", "admit", "credentials"]

# One text for every reason, so that nobody learns whether a key, a tenant or a path exists.
NO_SUCH_KEY = (
    "The API key is missing or not valid here. Send a key of this server as `x-api-key: KEY`, "
    "`Authorization: Bearer KEY`, or as the password of HTTP Basic."
)


@dataclass(frozen=True, slots=True)
class Credentials:
    """What a request carried.

    `ours` is the text that reads as one of our keys, or None. `foreign` is the header (lower-case name,
    value) with a credential that is not ours, for tenants that let callers bring their own upstream key, or
    None.
    """

    ours: str | None = field(default=None, repr=False)
    foreign: tuple[bytes, bytes] | None = field(default=None, repr=False)


def credentials(headers: Iterable[tuple[bytes, bytes]]) -> Credentials:
    """Sort the credentials of a request's raw headers: `x-api-key` goes first, then Bearer, then a Basic
    password.

    Clients may send both headers with different values. Ours is the first that parses as our key; of the
    others the first is foreign. A second key of ours counts as neither.
    """
    ours: str | None = None
    foreign: tuple[bytes, bytes] | None = None
    for name, value, texts in _candidates(list(headers)):
        key = next((text for text in texts if parse_key(text) is not None), None)
        if key is None:
            foreign = foreign or (name, value)
        else:
            ours = ours or key
    return Credentials(ours, foreign)


def admit(caller: Caller | None, *, slug: str | None, scope: str, kind: str = "sk") -> Caller:
    """Return the caller if it may come in.

    `slug` is the tenant named in the path, None at the root. `scope` is the one that the path needs, "" for
    paths that any key may use. Raises NotAuthenticated for no key, an unknown, expired or foreign one, or
    one of another kind, and after that NoPermission without the scope.
    """
    if caller is None or caller.kind != kind or _expired(caller):
        raise NotAuthenticated(NO_SUCH_KEY)
    if slug is not None and caller.tenant.slug != slug:
        raise NotAuthenticated(NO_SUCH_KEY)
    if scope and scope not in caller.scopes:
        raise NoPermission(f"This key lacks the scope `{scope}`. Ask for a key that has it.")
    return caller


def _expired(caller: Caller) -> bool:
    return caller.expires_at is not None and caller.expires_at <= datetime.now(UTC)


def _candidates(headers: list[tuple[bytes, bytes]]) -> Iterator[tuple[bytes, bytes, list[str]]]:
    """Yield (name, value, texts that could be the key) of each credential header, in order of precedence."""
    pairs = [(name.lower(), value.strip()) for name, value in headers]
    for name, value in pairs:
        if name == b"x-api-key" and value:
            yield name, value, [value.decode("latin-1")]
    for wanted in (b"bearer", b"basic"):
        for name, value in pairs:
            scheme, _, rest = value.partition(b" ")
            if name == b"authorization" and scheme.lower() == wanted:
                yield name, value, _texts(wanted, rest.strip())


def _texts(scheme: bytes, rest: bytes) -> list[str]:
    if scheme == b"bearer":
        return [rest.decode("latin-1")]
    try:
        pair = base64.b64decode(rest, validate=True).decode("latin-1")
    except (binascii.Error, ValueError):
        return []
    return [pair.partition(":")[2]]
