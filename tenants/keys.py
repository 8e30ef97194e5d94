"""Keys: making, resolving, rotating and revoking what programs show to act for a team.

A key reads ``kb_<kind>_<id>_<secret>``. The secret has 256 bits, so one HMAC under a pepper protects it
as well as a slow hash would, without offering a denial of service (argon2: 553 ms a look-up).
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
import string
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.conf import settings
from django.db import DEFAULT_DB_ALIAS, connections
from django.utils import timezone

from tenants import audit, changes
from tenants.facts import Caller, caller_of
from tenants.limits import BadLimit, check_limits
from tenants.models import SCOPES, Key, KeyKind, KeySecret, Placement, Team
from tenants.scope import HasTenantId, tenant_scope

_ALPHABET = string.ascii_letters + string.digits
_ID_LENGTH = 12
_SECRET_LENGTH = 43  # 43 of 62 characters hold 256 bits
_LONGEST_NAME = 100
_FORM = re.compile(r"^kb_(sk|pk)_([A-Za-z0-9]{1,32})_([A-Za-z0-9_-]{1,128})$")
# What a new team key may do unless asked otherwise: everything but reading whole pages and managing.
DEFAULT_SCOPES = ("messages", "query", "ask", "mcp", "ingest")
WIDGET_SCOPES = ("ask",)
USE_NOTED_EVERY = timedelta(minutes=5)


class BadKey(Exception):
    """A key cannot be made or changed as asked; the message names the option."""


class UnknownKey(Exception):
    """No key of that name."""


@dataclass(frozen=True, slots=True)
class ParsedKey:
    """The parts of a key's text."""

    kind: str
    public_id: str


@dataclass(frozen=True, slots=True)
class KeyOptions:
    """What a new key may do; empty restricts nothing."""

    kind: str = KeyKind.TEAM
    name: str = ""
    scopes: Sequence[str] | None = None
    sources: Sequence[str] = ()
    source_types: Sequence[str] = ()
    products: Sequence[str] = ()
    user_facing: bool = False
    models: Sequence[str] = ()
    placement: str = ""
    cache: bool = False
    origins: Sequence[str] = ()
    expires_at: datetime | None = None
    limits: dict[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class NewKey:
    """A key just made; its text is shown once and then forgotten."""

    row: Key
    text: str


def parse_key(text: str) -> ParsedKey | None:
    """Return the parts of a key's text, or None when it is none of ours."""
    found = _FORM.match(text)
    return ParsedKey(found[1], f"kb_{found[1]}_{found[2]}") if found else None


def digests(text: str) -> list[tuple[str, bytes]]:
    """Return (pepper id, digest) of a key's text under every pepper, the newest first."""
    return [(name, hmac.digest(pepper, text.encode(), hashlib.sha256)) for name, pepper in _peppers()]


def resolve(text: str) -> Caller | None:
    """Return who a key's text stands for, or None when it is unknown, expired or revoked."""
    if parse_key(text) is None:
        return None
    for _, digest in digests(text):
        found = _look_up(digest)
        if found is not None:
            return _caller(*found)
    return None


def create_key(tenant: HasTenantId, team: str, *, options: KeyOptions, actor: str) -> NewKey:
    """Make a key for a team (made too when missing); raises BadKey when an option cannot be had."""
    scopes = _checked(options)
    if not 0 < len(team.strip()) <= _LONGEST_NAME:
        raise BadKey(f"team: use 1 to {_LONGEST_NAME} characters")
    with tenant_scope(tenant):
        owner, _ = Team.objects.get_or_create(tenant_id=tenant.id, name=team)
        row = Key(
            tenant_id=tenant.id,
            team=owner,
            kind=options.kind,
            public_id=f"kb_{options.kind}_{_random(_ID_LENGTH)}",
            name=options.name,
            scopes=list(scopes),
            sources=list(options.sources),
            source_types=list(options.source_types),
            products=list(options.products),
            user_facing=options.user_facing or options.kind == KeyKind.WIDGET,
            allowed_models=list(options.models),
            placement=options.placement,
            cache_enabled=options.cache,
            origins=list(options.origins),
            limits=options.limits or {},
            expires_at=options.expires_at,
        )
        row.save(force_insert=True)
        text = _add_secret(row)
        audit.record(tenant, actor, action="key.create", subject=row.public_id, detail={"scopes": list(scopes)})
    return NewKey(row, text)


def rotate_key(tenant: HasTenantId, public_id: str, *, overlap: timedelta, actor: str) -> NewKey:
    """Give a key a new secret; the old one stays valid for the overlap. Raises UnknownKey."""
    with tenant_scope(tenant):
        row = _active(tenant, public_id)
        until = timezone.now() + overlap
        older = KeySecret.objects.filter(tenant_id=tenant.id, key=row)
        older.filter(expires_at__isnull=True).update(expires_at=until)
        older.filter(expires_at__gt=until).update(expires_at=until)
        text = _add_secret(row)
        audit.record(
            tenant,
            actor,
            action="key.rotate",
            subject=public_id,
            detail={"overlap_s": overlap.total_seconds()},
        )
        changes.announce(tenant)
    return NewKey(row, text)


def revoke_key(tenant: HasTenantId, public_id: str, *, actor: str) -> Key:
    """End a key at once, in every process within a second. Raises UnknownKey; ending it twice is fine."""
    with tenant_scope(tenant):
        row = Key.objects.filter(tenant_id=tenant.id, public_id=public_id).first()
        if row is None:
            raise UnknownKey(f"no key {public_id}")
        if row.revoked_at is None:
            row.revoked_at = timezone.now()
            row.save(update_fields=["revoked_at"])
            audit.record(tenant, actor, action="key.revoke", subject=public_id)
        changes.announce(tenant)
    return row


def _look_up(digest: bytes) -> tuple[Any, int] | None:
    with connections[DEFAULT_DB_ALIAS].cursor() as cursor:
        cursor.execute("SELECT tenant_id, key_id FROM kb_resolve_key(%s)", [digest])
        row: tuple[Any, int] | None = cursor.fetchone()
    return row


def _caller(tenant_id: Any, key_id: int) -> Caller | None:
    with tenant_scope(tenant_id):
        keys = Key.objects.active().filter(tenant_id=tenant_id, id=key_id).select_related("team", "tenant")
        key = keys.first()
        if key is None or (key.expires_at is not None and key.expires_at <= timezone.now()):
            return None
        _note_use(key)
        return caller_of(key)


def _note_use(key: Key) -> None:
    """Remember that a key is in use, at most once in a few minutes: it is asked for with every request."""
    now = timezone.now()
    if key.last_used_at is None or key.last_used_at < now - USE_NOTED_EVERY:
        Key.objects.filter(tenant_id=key.tenant_id, id=key.id).update(last_used_at=now)


def _active(tenant: HasTenantId, public_id: str) -> Key:
    row = Key.objects.active().filter(tenant_id=tenant.id, public_id=public_id).first()
    if row is None:
        raise UnknownKey(f"no active key {public_id}")
    return row


def _add_secret(row: Key) -> str:
    text = f"{row.public_id}_{_random(_SECRET_LENGTH)}"
    pepper_id, digest = digests(text)[0]
    KeySecret.objects.create(tenant_id=row.tenant_id, key=row, digest=digest, pepper_id=pepper_id)
    return text


def _checked(options: KeyOptions) -> tuple[str, ...]:
    """Return the scopes of a new key; raises BadKey."""
    default = WIDGET_SCOPES if options.kind == KeyKind.WIDGET else DEFAULT_SCOPES
    scopes = tuple(dict.fromkeys(default if options.scopes is None else options.scopes))
    unknown = [scope for scope in scopes if scope not in SCOPES]
    if unknown:
        raise BadKey(f"scopes: unknown {', '.join(unknown)}; use {', '.join(SCOPES)}")
    if options.kind not in KeyKind.values:
        raise BadKey("kind: use sk (team key) or pk (widget key)")
    if len(options.name) > _LONGEST_NAME:
        raise BadKey(f"name: use {_LONGEST_NAME} characters at most")
    if options.placement and options.placement not in Placement.values:
        raise BadKey(f"placement: use one of {', '.join(Placement.values)}")
    try:
        check_limits(options.limits or {})
    except BadLimit as error:
        raise BadKey(str(error)) from error
    return scopes


def _random(length: int) -> str:
    return "".join(secrets.choice(_ALPHABET) for _ in range(length))


def _peppers() -> list[tuple[str, bytes]]:
    pairs = [pair.partition(":") for pair in settings.KB_KEY_PEPPERS]
    if not pairs:
        raise BadKey("KB_KEY_PEPPERS is not set: give id:hex of 32 random bytes, and keep it")
    return [(name, bytes.fromhex(text)) for name, _, text in pairs]
