"""The one door to upstreams: which address and credential a request goes to, and the connection itself."""

import asyncio
import io
from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import urlsplit
from weakref import WeakKeyDictionary

import aiohttp
from django.conf import settings
from multidict import CIMultiDict
from yarl import URL

from proxy.errors import Failure, NotAuthenticated
from tenants.facts import TenantFacts

_LOOPBACK: Final = frozenset(("127.0.0.1", "::1", "localhost"))
_SLICE: Final = 256 << 10  # a large body is written in slices, so that it never holds up other requests
_CONNECT_RETRIES: Final = 1  # a connection that was refused has sent nothing: trying again is always safe
_FIRST_PAUSE_SECONDS: Final = 0.2
_LONGEST_PAUSE_SECONDS: Final = 5.0
# Headers of one connection (RFC 9110, 7.6.1), and those that this server answers for.
HOP_BY_HOP: Final = frozenset(
    b"connection keep-alive proxy-connection te trailer transfer-encoding upgrade proxy-authenticate"
    b" proxy-authorization".split()
)
_NOT_FORWARDED: Final = HOP_BY_HOP | frozenset(
    b"host content-length expect accept-encoding authorization x-api-key cookie".split()
)
# A key of ours, wherever a client or a proxy in front may have put it besides.
_OUR_KEYS: Final = (b"kb_sk_", b"kb_pk_")
_NOT_SENT_ERRORS: Final = (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError)

RawHeaders = Iterable[tuple[bytes, bytes]]


@dataclass(frozen=True, slots=True)
class Target:
    """Where a tenant's requests go and with which credential header."""

    base: str
    credential: tuple[str, str] = field(repr=False)
    retries: int = 0

    def url(self, path: str, query: bytes) -> URL:
        """Return the address of an API path; the base's own path and the query string stay as they are."""
        text = f"{self.base}{path}" + (f"?{query.decode('latin-1')}" if query else "")
        return URL(text, encoded=True)


@dataclass(frozen=True, slots=True)
class Call:
    """A request as it goes upstream."""

    method: str
    url: URL
    headers: CIMultiDict[str]
    body: bytes | None


def target_of(tenant: TenantFacts, foreign: tuple[bytes, bytes] | None) -> Target:
    """Return a tenant's upstream; `foreign` is the caller's credential header that isn't ours, if it sent
    one.

    Raises NotAuthenticated where there is no credential, naming what is missing. The server's own
    credential never goes to a tenant's own address.
    """
    base = (tenant.upstream_url or settings.KB_UPSTREAM_URL).rstrip("/")
    parts = urlsplit(base)
    if parts.scheme != "https" and parts.hostname not in _LOOPBACK:
        raise Failure("The upstream address must be https. Ask an administrator to set `upstream_url`.")
    if tenant.bring_your_own_key:
        if foreign is None:
            raise NotAuthenticated(
                "This tenant uses your own upstream key: send it besides the key of this server, one as `x-api-key`, "
                "the other as `Authorization: Bearer`."
            )
        return Target(base, (foreign[0].decode("latin-1"), foreign[1].decode("latin-1")), tenant.retries)
    key = tenant.upstream_key or ("" if tenant.upstream_url else settings.KB_UPSTREAM_KEY)
    if not key:
        missing = "upstream_key of the tenant" if tenant.upstream_url else "ANTHROPIC_API_KEY"
        raise NotAuthenticated(f"There is no upstream credential: an administrator has to set {missing}.")
    return Target(base, _credential(key), tenant.retries)


def forwarded(headers: RawHeaders, credential: tuple[str, str]) -> CIMultiDict[str]:
    """Return the headers that go upstream: all but those of the connection, our own, cookies and
    credentials.
    """
    pairs = [(name.lower(), value) for name, value in headers]
    named = {part.strip().lower() for name, value in pairs if name == b"connection" for part in value.split(b",")}
    out: CIMultiDict[str] = CIMultiDict()
    for name, value in pairs:
        if name in _NOT_FORWARDED or name in named or name.startswith(b"x-kb-"):
            continue
        if not any(key in value for key in _OUR_KEYS):
            out.add(name.decode("latin-1"), _text(value))
    out.add(*credential)
    out["accept-encoding"] = "identity"  # usage is read off the bytes that pass by
    return out


async def open_answer(call: Call, *, retries: int) -> aiohttp.ClientResponse:
    """Send a request and return the answer once its headers are there; the caller closes it.

    Tries again after a connection that couldn't be made, and, as often as the tenant allows, after an
    answer that upstream marks as worth retrying or a connection that broke before any. Raises Failure (502)
    when there is none.
    """
    attempt = 0
    while True:
        try:
            answer = await _send(call)
        except (TimeoutError, aiohttp.ClientError, OSError) as why:
            nothing_sent = isinstance(why, _NOT_SENT_ERRORS)
            if attempt >= max(retries, _CONNECT_RETRIES if nothing_sent else 0):
                raise _no_answer(why) from why
            pause = _pause(attempt)
        else:
            wanted = _pause_after(answer, attempt) if attempt < retries else None
            if wanted is None:
                return answer
            answer.close()
            pause = wanted
        attempt += 1
        await asyncio.sleep(pause)


async def close() -> None:
    """Close this process's connections; for shutdown."""
    session = _sessions.pop(asyncio.get_running_loop(), None)
    if session is not None:
        await session.close()


_sessions: WeakKeyDictionary[asyncio.AbstractEventLoop, aiohttp.ClientSession] = WeakKeyDictionary()


def _session() -> aiohttp.ClientSession:
    """Return this event loop's session: one pool of connections for all tenants."""
    loop = asyncio.get_running_loop()
    if loop not in _sessions:
        _sessions[loop] = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=30),
            timeout=aiohttp.ClientTimeout(
                total=None,
                sock_connect=float(settings.KB_UPSTREAM_CONNECT_SECONDS),
                sock_read=float(settings.KB_UPSTREAM_IDLE_SECONDS),
            ),
            cookie_jar=aiohttp.DummyCookieJar(),
            auto_decompress=False,
            skip_auto_headers=("accept", "accept-encoding", "user-agent", "content-type"),
            requote_redirect_url=False,
            max_line_size=64 << 10,
            max_field_size=64 << 10,
        )
    return _sessions[loop]


async def _send(call: Call) -> aiohttp.ClientResponse:
    headers, data = call.headers, call.body
    if data is not None:
        headers = headers.copy()
        headers["content-length"] = str(len(data))
    return await _session().request(
        call.method,
        call.url,
        headers=headers,
        data=_sliced(data) if data is not None and len(data) > _SLICE else data,
        allow_redirects=False,
    )


async def _sliced(data: bytes) -> AsyncIterator[bytes]:
    rest = io.BytesIO(data)
    while piece := rest.read(_SLICE):
        yield piece


def _credential(key: str) -> tuple[str, str]:
    """A credential that begins with "Bearer " is sent as Authorization, as some gateways want it."""
    return ("authorization", key) if key.startswith("Bearer ") else ("x-api-key", key)


def _no_answer(why: BaseException) -> Failure:
    if isinstance(why, _NOT_SENT_ERRORS):
        return Failure("The upstream can't be reached at the moment. Try again.", status=502)
    return Failure("The upstream gave no answer. Try again.", status=502)


def _pause(attempt: int) -> float:
    return _FIRST_PAUSE_SECONDS * 2.0**attempt


def _pause_after(answer: aiohttp.ClientResponse, attempt: int) -> float | None:
    """Return the seconds to wait before a retry that upstream asked for, or None where it didn't or wants
    longer.
    """
    if answer.status != 429 and answer.status < 500:
        return None
    if answer.headers.get("x-should-retry") != "true":
        return None
    try:
        wanted = float(answer.headers.get("retry-after", ""))
    except ValueError:
        wanted = _pause(attempt)
    return wanted if wanted <= _LONGEST_PAUSE_SECONDS else None


def _text(value: bytes) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError:
        return value.decode("latin-1")
