"""The commands that make and change tenants, teams and keys."""

from __future__ import annotations

import io
import json
import re
import secrets
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest
from django.conf import settings
from django.core.management import CommandError, call_command, execute_from_command_line
from django.utils import timezone

from tenants.facts import TenantFacts
from tenants.keys import resolve
from tenants.models import AuditEntry, Team
from tenants.registry import find_tenant
from tenants.scope import tenant_scope
from tests.make import make_key
from tests.plugin import CLUSTER


def run(name: str, *arguments: str) -> Any:
    """Run a command with --json and return what it printed."""
    return json.loads(plain(name, *arguments, "--json"))


def plain(name: str, *arguments: str) -> str:
    """Run a command and return its text."""
    out = io.StringIO()
    call_command(name, *arguments, stdout=out)
    return out.getvalue()


def status(*arguments: str) -> int:
    """Run a command as the command line does and return its exit status."""
    with pytest.raises(SystemExit) as left:
        execute_from_command_line(["manage.py", *arguments])
    assert isinstance(left.value.code, int)
    return left.value.code


def key_id(text: str) -> str:
    """Return the part of a key that may be shown."""
    return text.rpartition("_")[0]


def test_it_works(tenant: TenantFacts) -> None:
    facts = run("create_key", "--tenant", tenant.slug, "--team", "blue", "--scopes", "query,ask")
    caller = resolve(facts["key"])

    assert set(facts) == {"key", "id", "tenant", "team", "kind", "scopes"}
    assert (facts["tenant"], facts["team"], facts["kind"]) == (tenant.slug, "blue", "sk")
    assert facts["id"] == key_id(facts["key"])
    assert re.fullmatch(r"kb_sk_[A-Za-z0-9]+_[A-Za-z0-9]{43}", facts["key"])
    assert caller is not None
    assert (caller.tenant.id, caller.team, caller.scopes) == (tenant.id, "blue", frozenset({"query", "ask"}))


@pytest.mark.parametrize(
    ("given", "code"), [("es", "es"), ("spanish", "es"), ("Russian", "ru"), ("pt-BR", "pt"), ("ja", "ja")]
)
def test_a_tenant_is_made_with_its_language(given: str, code: str) -> None:
    slug = f"made-{secrets.token_hex(4)}"
    facts = run("create_tenant", slug, "--language", given, "--name", "Made", "--product", "racks")
    tenant = find_tenant(slug)

    assert facts == {"tenant": slug, "id": str(tenant.id), "language": code}
    assert (tenant.name, tenant.language, tenant.product) == ("Made", code, "racks")


def test_a_tenant_is_made_once(tenant: TenantFacts, capsys: pytest.CaptureFixture[str]) -> None:
    assert status("create_tenant", tenant.slug) == 1
    assert capsys.readouterr().err.strip() == f"CommandError: tenant {tenant.slug} is there already"


@pytest.mark.parametrize(
    "arguments",
    [
        ["create_tenant", "Not A Slug"],
        ["create_tenant", "fine", "--language", "klingon"],
        ["create_tenant"],
        ["create_key", "--tenant", "{tenant}", "--team", "t", "--scopes", "everything"],
        ["create_key", "--tenant", "{tenant}", "--team", " "],
        ["create_key", "--tenant", "{tenant}", "--team", "t", "--kind", "xx"],
        ["create_key", "--tenant", "{tenant}", "--team", "t", "--limit", "requests_per_hour=1"],
        ["create_key", "--tenant", "{tenant}", "--team", "t", "--limit", "money_per_day=nan"],
        ["create_key", "--tenant", "{tenant}", "--team", "t", "--limit", "requests_per_minute=1.5"],
        ["create_key", "--tenant", "{tenant}", "--team", "t", "--expires", "someday"],
        ["create_key", "--tenant", "{tenant}", "--team", "t", "--expires", "2001-01-01"],
        ["rotate_key", "kb_sk_x", "--overlap", "long"],
        ["set_tenant", "{tenant}", "gate=2"],
        ["set_tenant", "{tenant}", "gate=nan"],
        ["set_tenant", "{tenant}", "colour=red"],
        ["set_tenant", "{tenant}", "gate"],
        ["set_tenant", "{tenant}", "upstream_url=http://example.com"],
        ["set_team", "t", "--tenant", "{tenant}", "--limit", "speed=1"],
        ["create_roles"],
    ],
)
def test_a_wrong_option_ends_with_two(tenant: TenantFacts, arguments: list[str]) -> None:
    assert status(*(text.replace("{tenant}", tenant.slug) for text in arguments)) == 2


@pytest.mark.parametrize(
    "arguments",
    [
        ["create_key", "--tenant", "nobody", "--team", "t"],
        ["list_keys", "--tenant", "nobody"],
        ["set_tenant", "nobody", "gate=0.3"],
        ["set_team", "nobody", "--tenant", "{tenant}", "--limit", "money_per_day=1"],
        ["revoke_key", "kb_sk_nobody"],
        ["rotate_key", "kb_sk_nobody"],
        ["create_roles", "postgresql://nobody:x@127.0.0.1:1/nothing"],
    ],
)
def test_what_is_not_there_ends_with_one_line_and_one(
    tenant: TenantFacts, arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert status(*(text.replace("{tenant}", tenant.slug) for text in arguments)) == 1
    assert len(capsys.readouterr().err.strip().splitlines()) == 1


def test_every_option_of_a_key_arrives(tenant: TenantFacts) -> None:
    knowledge = ["--sources", "a,b", "--source-types", "doc", "--products", "p", "--user-facing"]
    use = ["--placement", "once", "--cache", "on", "--models", "claude-a, claude-b", "--expires", "30d"]
    limits = ["--limit", "requests_per_minute=60", "--limit", "money_per_day=2.50"]
    arguments = ["--tenant", tenant.slug, "--team", "t", "--name", "for tests", *knowledge, *use, *limits]
    caller = resolve(run("create_key", *arguments)["key"])

    assert caller is not None
    assert (caller.key_name, caller.placement, caller.cache_enabled) == ("for tests", "once", True)
    assert (caller.filter.sources, caller.filter.source_types) == (("a", "b"), ("doc",))
    assert (caller.filter.products, caller.filter.user_facing) == (("p",), True)
    assert caller.models == ("claude-a", "claude-b")
    assert caller.limits == {"requests_per_minute": 60, "money_per_day": 2.5}
    assert caller.expires_at is not None
    assert abs(caller.expires_at - timezone.now() - timedelta(days=30)) < timedelta(minutes=1)


def test_a_key_expires_at_a_date(tenant: TenantFacts) -> None:
    key = run("create_key", "--tenant", tenant.slug, "--team", "t", "--expires", "2199-01-31")["key"]
    caller = resolve(key)

    assert caller is not None
    assert caller.expires_at == datetime(2199, 1, 31, tzinfo=UTC)


def test_a_widget_key_keeps_its_origins(tenant: TenantFacts) -> None:
    origins = "https://a.example,https://b.example"
    facts = run("create_key", "--tenant", tenant.slug, "--team", "t", "--kind", "pk", "--origins", origins)
    caller = resolve(facts["key"])

    assert facts["key"].startswith("kb_pk_")
    assert caller is not None
    assert caller.origins == ("https://a.example", "https://b.example")


def test_a_revoked_key_opens_nothing(tenant: TenantFacts) -> None:
    key = make_key(tenant)
    facts = run("revoke_key", key_id(key))

    assert (facts["id"], facts["tenant"], facts["status"]) == (key_id(key), tenant.slug, "revoked")
    assert resolve(key) is None


def test_a_whole_key_may_be_pasted(tenant: TenantFacts) -> None:
    key = make_key(tenant)

    assert key not in plain("revoke_key", key)
    assert resolve(key) is None


def test_a_rotated_key_keeps_the_old_secret_for_the_overlap(tenant: TenantFacts) -> None:
    old = make_key(tenant)
    facts = run("rotate_key", key_id(old), "--overlap", "1h")
    until = datetime.fromisoformat(facts["old_valid_until"])

    assert facts["id"] == key_id(old) == key_id(facts["key"])
    assert (resolve(old) is not None, resolve(facts["key"]) is not None) == (True, True)
    assert abs(until - timezone.now() - timedelta(hours=1)) < timedelta(minutes=1)


def test_a_rotated_key_without_overlap_forgets_the_old_secret(tenant: TenantFacts) -> None:
    old = make_key(tenant)
    new = run("rotate_key", key_id(old), "--overlap", "0")["key"]

    assert (resolve(old), resolve(new) is not None) == (None, True)


def test_keys_are_listed_without_secrets_and_without_the_rivals(tenant: TenantFacts, rival: TenantFacts) -> None:
    mine, revoked = make_key(tenant, team="blue"), make_key(tenant)
    theirs = make_key(rival)
    run("revoke_key", key_id(revoked))
    listed = plain("list_keys", "--tenant", tenant.slug)
    facts = run("list_keys", "--tenant", tenant.slug)

    assert [(key["id"], key["status"]) for key in facts["keys"]] == [
        (key_id(mine), "active"),
        (key_id(revoked), "revoked"),
    ]
    assert key_id(mine) in listed
    assert mine.rpartition("_")[2] not in listed + json.dumps(facts)
    assert key_id(theirs) not in listed + json.dumps(facts)


def test_settings_of_a_tenant_are_changed_and_shown(tenant: TenantFacts) -> None:
    given = ["gate=0.3", "language=spanish", "placement=once", "upstream_key=sk-secret", "bring_your_own_key=on"]
    facts = run("set_tenant", tenant.slug, *given)
    changed = find_tenant(tenant.slug)

    assert (changed.gate, changed.language, changed.placement) == (0.3, "es", "once")
    assert (changed.upstream_key, changed.bring_your_own_key) == ("sk-secret", True)
    assert facts["upstream_key"] == "set"
    assert "sk-secret" not in json.dumps(facts)


def test_one_wrong_setting_changes_none(tenant: TenantFacts) -> None:
    with pytest.raises(CommandError, match="colour"):
        call_command("set_tenant", tenant.slug, "gate=0.3", "colour=red")

    assert find_tenant(tenant.slug).gate == tenant.gate


def test_limits_of_a_team_are_added_and_taken_away(tenant: TenantFacts) -> None:
    make_key(tenant, team="blue")
    run("set_team", "blue", "--tenant", tenant.slug, "--limit", "money_per_month=100", "--limit", "money_per_day=9")
    facts = run("set_team", "blue", "--tenant", tenant.slug, "--limit", "money_per_day=")

    assert facts == {"tenant": tenant.slug, "team": "blue", "limits": {"money_per_month": 100.0}}
    with tenant_scope(tenant):
        assert Team.objects.get(tenant_id=tenant.id, name="blue").limits == {"money_per_month": 100.0}


def test_a_rivals_team_of_the_same_name_keeps_its_limits(tenant: TenantFacts, rival: TenantFacts) -> None:
    make_key(tenant, team="blue")
    make_key(rival, team="blue")
    run("set_team", "blue", "--tenant", tenant.slug, "--limit", "money_per_day=9")

    with tenant_scope(rival):
        assert Team.objects.get(tenant_id=rival.id, name="blue").limits == {}


def test_every_change_is_in_the_audit(tenant: TenantFacts) -> None:
    key = run("create_key", "--tenant", tenant.slug, "--team", "blue")["id"]
    run("set_team", "blue", "--tenant", tenant.slug, "--limit", "money_per_day=9")
    run("rotate_key", key)
    run("revoke_key", key)

    with tenant_scope(tenant):
        actions = list(AuditEntry.objects.filter(actor__startswith="command").values_list("action", flat=True))
    assert sorted(actions) == ["key.create", "key.revoke", "key.rotate", "team.set"]


def test_facts_for_people_are_lines(tenant: TenantFacts) -> None:
    assert f"tenant: {tenant.slug}\n" in plain("create_key", "--tenant", tenant.slug, "--team", "t")


def test_roles_are_made_in_another_database() -> None:
    database = f"roles_{secrets.token_hex(4)}"
    with psycopg.connect(CLUSTER.superuser_url("postgres"), autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {database}".encode())
    url = CLUSTER.superuser_url(database)

    # The settings hold the passwords of all three, so none is made.
    assert run("create_roles", url) == {"roles": ["kb_owner", "kb_app", "kb_staff"], "settings": {}}
    assert "roles are there" in plain("create_roles", url)
    with psycopg.connect(CLUSTER.urls(database)["KB_OWNER_DATABASE_URL"]) as owner:
        owner.execute("CREATE TABLE made (id int)")
    with psycopg.connect(CLUSTER.urls(database)["DATABASE_URL"]) as app:
        assert app.execute("SELECT count(*) FROM made").fetchall() == [(0,)]
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            app.execute("CREATE TABLE mine (id int)")


def test_the_sql_for_an_administrator_is_printed() -> None:
    printed = plain("create_roles", "--print")

    assert "CREATE ROLE kb_app" in printed
    assert "\\password kb_app" in printed
    assert settings.DATABASES["default"]["PASSWORD"] not in printed
