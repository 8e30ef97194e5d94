"""The first start: a tenant to try, its keys, a person who can sign in, and this project's documents as corpus."""

import secrets
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from kbplatform.private_files import read_private, write_private
from kbplatform.start_environment import QUICKSTART_FILE
from tenants import changes
from tenants.facts import TenantFacts
from tenants.keys import KeyOptions, create_key, parse_key
from tenants.models import SCOPES, Key, KeyKind, User
from tenants.registry import UnknownTenant, create_tenant, find_tenant
from tenants.scope import tenant_scope

SLUG = TEAM = "demo"
ADMIN = "admin"
_ACTOR = "quickstart"


def quickstart(data: Path, *, origin: str, ingest: Callable[[TenantFacts], object] | None = None) -> dict[str, Any]:
    """Return what somebody needs to try the platform, making it on the first start and keeping it in the folder.

    `origin` is the server's own, from which the widget key works; `ingest` fills the demo corpus and is called
    once in the life of the folder. The password is empty when the database knew the person already.
    """
    path = data / QUICKSTART_FILE
    tenant = _tenant()
    facts = read_private(path)
    if facts is None:
        facts = _first_facts(tenant, origin)
        write_private(path, facts)
    else:
        _allow_origin(tenant, facts["widget_key"], origin)
    if ingest and not facts["demo_corpus"]:
        ingest(tenant)
        facts["demo_corpus"] = True
        write_private(path, facts)
    return facts


def _tenant() -> TenantFacts:
    try:
        return find_tenant(SLUG)
    except UnknownTenant:
        return create_tenant(SLUG, name="Demo", actor=_ACTOR)


def _first_facts(tenant: TenantFacts, origin: str) -> dict[str, Any]:
    team = KeyOptions(name="quickstart", scopes=SCOPES)
    widget = KeyOptions(kind=KeyKind.WIDGET, name="quickstart widget", origins=_origins(origin))
    return {
        "tenant": tenant.slug,
        "team_key": create_key(tenant, TEAM, options=team, actor=_ACTOR).text,
        "widget_key": create_key(tenant, TEAM, options=widget, actor=_ACTOR).text,
        "admin": {"username": ADMIN, "password": _new_admin()},
        "demo_corpus": False,
    }


def _new_admin() -> str:
    """Make the superuser and return the password; an existing one is left alone."""
    if User.objects.filter(username=ADMIN).exists():
        return ""
    password = secrets.token_urlsafe(12)
    User.objects.create_superuser(ADMIN, password=password)
    return password


def _allow_origin(tenant: TenantFacts, widget_key: str, origin: str) -> None:
    """Let the widget key work from the server's own pages when it listens elsewhere than before."""
    parsed = parse_key(widget_key)
    if parsed is None:
        return
    with tenant_scope(tenant):
        key = Key.objects.active().filter(tenant_id=tenant.id, public_id=parsed.public_id).first()
        if key is None or set(_origins(origin)) <= set(key.origins):
            return
        key.origins = list(dict.fromkeys([*key.origins, *_origins(origin)]))
        key.save(update_fields=["origins"])
        changes.announce(tenant)


def _origins(origin: str) -> list[str]:
    """The origin itself, and the other name of this machine that a browser may have been given."""
    parts = urlsplit(origin)
    local = {"127.0.0.1": "localhost", "localhost": "127.0.0.1"}.get(parts.hostname or "")
    return [origin, f"{parts.scheme}://{local}:{parts.port}"] if local else [origin]
