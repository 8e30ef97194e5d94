"""The admin: who sees what in it, and keys that are shown once."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from tenants.facts import TenantFacts
from tenants.keys import KeyOptions, create_key, resolve
from tenants.ledger import UsageRecord, record
from tenants.models import AuditEntry, Key, Membership, Role, Team, User
from tenants.registry import read_facts
from tenants.scope import tenant_scope
from tests.make import make_key, make_member, make_user

TABLES = ("tenant", "team", "membership", "key", "auditentry", "usage")
KEY_TEXT = re.compile(r"kb_sk_[A-Za-z0-9]{12}_[A-Za-z0-9]{43}")


def signed_in(user: Any) -> Client:
    """Return a browser in which somebody is signed in."""
    client = Client()
    client.force_login(user)
    return client


def page(client: Client, path: str, **query: str) -> Any:
    """Open an admin page."""
    return client.get(f"/admin/tenants/{path}", query)


def fill(tenant: TenantFacts) -> Key:
    """Give a tenant a row in every table and return its key."""
    make_member(tenant, role=Role.VIEWER)
    record([UsageRecord(tenant.id, f"req_{tenant.slug}", "kb_sk_x", "team", 200, "MISS")])
    return create_key(tenant, "team", options=KeyOptions(name=f"name of {tenant.slug}"), actor="test").row


def key_of(tenant: TenantFacts) -> Key:
    """Return a key of the tenant made in the admin or before."""
    with tenant_scope(tenant):
        return Key.objects.filter(tenant_id=tenant.id).latest("created_at")


def new_key(**fields: object) -> dict[str, object]:
    """Return what the form for a new key sends."""
    return {"team_name": "writers", "kind": "sk", "name": "laptop", "scopes": ["query"], **fields}


def actions_of(tenant: TenantFacts) -> list[str]:
    """Return what the tenant's audit says was done, in order."""
    with tenant_scope(tenant):
        found = AuditEntry.objects.filter(tenant_id=tenant.id).order_by("id")
        return list(found.values_list("action", flat=True))


def test_it_works(tenant: TenantFacts) -> None:
    fill(tenant)
    client = signed_in(make_user(superuser=True))
    assert client.get("/admin/").status_code == 200
    assert tenant.slug in page(client, "tenant/", q=tenant.slug).content.decode()


@pytest.mark.parametrize("table", TABLES)
def test_a_superuser_opens_every_list_and_row(tenant: TenantFacts, table: str) -> None:
    fill(tenant)
    client = signed_in(make_user(superuser=True))
    listed = page(client, f"{table}/", tenant=tenant.slug)
    assert listed.status_code == 200
    links = re.findall(rf'href="(/admin/tenants/{table}/[^"/]+/change/[^"]*)"', listed.content.decode())
    assert links
    assert client.get(links[0].replace("&amp;", "&")).status_code == 200


@pytest.mark.parametrize("table", ["tenant", "team", "membership", "key", "user"])
def test_a_superuser_opens_every_form(tenant: TenantFacts, table: str) -> None:
    client = signed_in(make_user(superuser=True))
    assert page(client, f"{table}/add/", tenant=tenant.slug).status_code == 200


@pytest.mark.parametrize("table", ["team", "membership", "key"])
def test_a_superuser_is_asked_for_the_tenant_first(tenant: TenantFacts, table: str) -> None:
    client = signed_in(make_user(superuser=True))
    assert 'name="tenant"' in page(client, f"{table}/add/").content.decode()
    assert page(client, f"{table}/add/", tenant="nobody-here").status_code == 404


@pytest.mark.parametrize("table", TABLES)
def test_a_manager_sees_the_own_tenant_only(tenant: TenantFacts, rival: TenantFacts, table: str) -> None:
    fill(tenant)
    fill(rival)
    client = signed_in(make_member(tenant, role=Role.MANAGER))
    text = page(client, f"{table}/").content.decode()
    assert tenant.slug in text
    assert rival.slug not in text
    assert page(client, f"{table}/", tenant=rival.slug).status_code == 404


def test_a_foreign_row_answers_as_an_unknown_one(tenant: TenantFacts, rival: TenantFacts) -> None:
    theirs = fill(rival)
    client = signed_in(make_member(tenant, role=Role.MANAGER))
    for page_name in ("change", "history", "rotate", "revoke"):
        foreign = page(client, f"key/{theirs.pk}/{page_name}/")
        unknown = page(client, f"key/{theirs.pk + 1}/{page_name}/")
        assert foreign.status_code == unknown.status_code
        assert theirs.public_id not in foreign.content.decode()


def test_a_foreign_key_cannot_be_revoked(tenant: TenantFacts, rival: TenantFacts) -> None:
    theirs = fill(rival)
    client = signed_in(make_member(tenant, role=Role.MANAGER))
    client.post(f"/admin/tenants/key/{theirs.pk}/revoke/")
    client.post(
        "/admin/tenants/key/",
        {"action": "revoke_selected", "confirmed": "yes", "_selected_action": str(theirs.pk)},
    )
    assert key_of(rival).revoked_at is None


def test_forms_offer_rows_of_the_same_tenant_only(tenant: TenantFacts, rival: TenantFacts) -> None:
    make_key(tenant, team="our-team")
    make_key(rival, team="their-team")
    client = signed_in(make_user(superuser=True))
    text = page(client, "membership/add/", tenant=tenant.slug).content.decode()
    assert "our-team" in text
    assert "their-team" not in text


def test_nobody_without_a_membership_sees_anything(tenant: TenantFacts) -> None:
    fill(tenant)
    client = signed_in(make_user())
    assert "no member of any tenant" in client.get("/admin/").content.decode()
    for table in (*TABLES, "user"):
        assert page(client, f"{table}/").status_code == 403


def test_somebody_who_is_no_staff_is_sent_to_sign_in(tenant: TenantFacts) -> None:
    user = make_member(tenant, role=Role.MANAGER)
    user.is_staff = False
    user.save(update_fields=["is_staff"])
    assert page(signed_in(user), "key/").status_code == 302


@pytest.mark.parametrize(
    ("role", "seen"),
    [
        (Role.VIEWER, {"tenant", "team"}),
        (Role.EDITOR, {"tenant", "team"}),
        (Role.MANAGER, set(TABLES)),
        (Role.LEAD, {"key", "usage"}),
    ],
)
def test_each_role_sees_its_tables(tenant: TenantFacts, role: str, seen: set[str]) -> None:
    client = signed_in(make_member(tenant, role=role))
    assert {table for table in TABLES if page(client, f"{table}/").status_code == 200} == seen
    assert page(client, "user/").status_code == 403


@pytest.mark.parametrize(
    ("role", "made"),
    [(Role.VIEWER, set()), (Role.EDITOR, set()), (Role.MANAGER, {"team", "key"}), (Role.LEAD, {"key"})],
)
def test_each_role_adds_its_rows(tenant: TenantFacts, role: str, made: set[str]) -> None:
    client = signed_in(make_member(tenant, role=role))
    assert {table for table in TABLES if page(client, f"{table}/add/").status_code == 200} == made


def test_nothing_that_belongs_to_the_record_can_be_deleted(tenant: TenantFacts) -> None:
    key = fill(tenant)
    client = signed_in(make_user(superuser=True))
    assert page(client, f"tenant/{tenant.id}/delete/").status_code == 403
    assert page(client, f"key/{key.pk}/delete/").status_code == 403
    assert "delete_selected" not in page(client, "key/", tenant=tenant.slug).content.decode()


def test_a_key_is_shown_once(tenant: TenantFacts) -> None:
    client = signed_in(make_member(tenant, role=Role.MANAGER))
    answer = client.post("/admin/tenants/key/add/", new_key(requests_per_minute="7"))
    [text] = set(KEY_TEXT.findall(answer.content.decode()))
    caller = resolve(text)
    assert caller is not None
    assert (caller.tenant.slug, caller.team, caller.key_name) == (tenant.slug, "writers", "laptop")
    assert (caller.scopes, caller.limits) == (frozenset({"query"}), {"requests_per_minute": 7})
    assert "no-store" in answer.headers["Cache-Control"]
    changed = page(client, f"key/{caller.key_id}/change/").content.decode()
    assert caller.public_id in changed
    assert text not in changed
    assert "digest" not in changed
    assert text not in page(client, "key/").content.decode()


def test_a_superuser_makes_a_key_for_the_chosen_tenant(tenant: TenantFacts, rival: TenantFacts) -> None:
    client = signed_in(make_user(superuser=True))
    answer = client.post(f"/admin/tenants/key/add/?tenant={tenant.slug}", new_key())
    caller = resolve(KEY_TEXT.findall(answer.content.decode())[0])
    assert caller is not None
    assert caller.tenant.id == tenant.id
    assert "key.create" in actions_of(tenant)
    assert "key.create" not in actions_of(rival)


def test_a_key_that_cannot_be_had_is_explained(tenant: TenantFacts) -> None:
    client = signed_in(make_member(tenant, role=Role.MANAGER))
    answer = client.post("/admin/tenants/key/add/", new_key(scopes=["everything"], requests_per_minute="-1"))
    assert answer.status_code == 200
    assert KEY_TEXT.findall(answer.content.decode()) == []
    assert "everything" in answer.content.decode()


def test_a_rotated_key_is_shown_once_and_the_old_secret_lives_on(tenant: TenantFacts) -> None:
    old = make_key(tenant)
    client = signed_in(make_member(tenant, role=Role.MANAGER))
    answer = client.post(f"/admin/tenants/key/{key_of(tenant).pk}/rotate/", {"overlap": "24"})
    [new] = set(KEY_TEXT.findall(answer.content.decode()))
    assert new != old
    assert resolve(old) is not None
    assert resolve(new) is not None


def test_revoking_ends_a_key_after_a_question(tenant: TenantFacts) -> None:
    text = make_key(tenant)
    client = signed_in(make_member(tenant, role=Role.MANAGER))
    chosen = {"action": "revoke_selected", "_selected_action": str(key_of(tenant).pk)}
    assert "for ever" in client.post("/admin/tenants/key/", chosen).content.decode()
    assert resolve(text) is not None
    client.post("/admin/tenants/key/", {**chosen, "confirmed": "yes"})
    assert resolve(text) is None
    assert page(client, f"key/{key_of(tenant).pk}/rotate/").status_code == 404


def test_changing_a_key_keeps_what_the_form_does_not_show(tenant: TenantFacts) -> None:
    text = make_key(tenant, sources=("handbook",))
    key = key_of(tenant)
    client = signed_in(make_member(tenant, role=Role.MANAGER))
    sent = {"name": "renamed", "scopes": ["query"], "sources": "handbook", "money_per_day": "2.5"}
    assert client.post(f"/admin/tenants/key/{key.pk}/change/", sent).status_code == 302
    caller = resolve(text)
    assert caller is not None
    assert (caller.key_name, caller.filter.sources, caller.limits) == ("renamed", ("handbook",), {"money_per_day": 2.5})
    assert "key.change" in actions_of(tenant)


def test_a_lead_is_held_to_the_own_team(tenant: TenantFacts) -> None:
    make_key(tenant, team="others", name="not for leads")
    lead = make_member(tenant, role=Role.LEAD, team="led")
    client = signed_in(lead)
    assert "not for leads" not in page(client, "key/").content.decode()
    answer = client.post("/admin/tenants/key/add/", new_key(team_name="others"))
    caller = resolve(KEY_TEXT.findall(answer.content.decode())[0])
    assert caller is not None
    assert caller.team == "led"
    refused = client.post("/admin/tenants/key/add/", new_key(scopes=["manage"]))
    assert KEY_TEXT.findall(refused.content.decode()) == []


def test_a_manager_sets_the_tenant_and_the_upstream_key_is_never_shown(tenant: TenantFacts) -> None:
    client = signed_in(make_member(tenant, role=Role.MANAGER))
    address = f"/admin/tenants/tenant/{tenant.id}/change/"
    sent = tenant_fields(tenant, gate="0.3", language="Spanish", new_upstream_key="sk-ant-shh")
    assert client.post(address, sent).status_code == 302
    facts = read_facts(tenant.id)
    assert (facts.gate, facts.language, facts.upstream_key) == (0.3, "es", "sk-ant-shh")
    assert "sk-ant-shh" not in client.get(address).content.decode()
    client.post(address, tenant_fields(tenant, gate="0.3", language="es", forget_upstream_key="on"))
    assert read_facts(tenant.id).upstream_key == ""


def test_a_setting_out_of_range_is_explained(tenant: TenantFacts) -> None:
    client = signed_in(make_member(tenant, role=Role.MANAGER))
    address = f"/admin/tenants/tenant/{tenant.id}/change/"
    answer = client.post(address, tenant_fields(tenant, gate="0.9", upstream_url="http://example.org", language="xx"))
    assert answer.content.decode().count("errorlist") >= 3
    assert read_facts(tenant.id) == tenant


def tenant_fields(tenant: TenantFacts, **changed: object) -> dict[str, object]:
    """Return what a tenant's form sends, as it stands but for some fields."""
    names = (
        *("name", "language", "product", "unmarked_pages", "gate", "dense_weight", "top_k", "placement"),
        *("search_deadline_ms", "tokens_per_question", "tokens_per_session", "upstream_url", "retries"),
    )
    return {**{name: getattr(tenant, name) for name in names}, **changed}


def test_a_superuser_makes_a_tenant(tenant: TenantFacts) -> None:
    client = signed_in(make_user(superuser=True))
    slug = f"{tenant.slug}-two"
    sent = {"slug": slug, "name": "Two", "language": "ru", "product": ""}
    assert client.post("/admin/tenants/tenant/add/", sent).status_code == 302
    again = client.post("/admin/tenants/tenant/add/", sent)
    assert again.status_code == 200
    assert "already exists" in again.content.decode()


def test_a_team_of_that_name_is_explained(tenant: TenantFacts) -> None:
    make_key(tenant, team="writers")
    client = signed_in(make_member(tenant, role=Role.MANAGER))
    answer = client.post("/admin/tenants/team/add/", {"name": "writers"})
    assert "already exists" in answer.content.decode()
    assert client.post("/admin/tenants/team/add/", {"name": "readers"}).status_code == 302
    with tenant_scope(tenant):
        assert set(Team.objects.filter(tenant_id=tenant.id).values_list("name", flat=True)) == {"writers", "readers"}


def test_memberships_are_given_by_superusers_and_ended_by_managers(tenant: TenantFacts) -> None:
    person = make_user()
    boss = signed_in(make_user(superuser=True))
    sent = {"user": person.pk, "role": "viewer"}
    assert boss.post(f"/admin/tenants/membership/add/?tenant={tenant.slug}", sent).status_code == 302
    with tenant_scope(tenant):
        given = Membership.objects.get(tenant_id=tenant.id, user=person)
    client = signed_in(make_member(tenant, role=Role.MANAGER))
    assert page(client, f"membership/{given.pk}/delete/").status_code == 200
    assert client.post(f"/admin/tenants/membership/{given.pk}/delete/", {"post": "yes"}).status_code == 302
    with tenant_scope(tenant):
        assert not Membership.objects.filter(tenant_id=tenant.id, user=person).exists()


def test_a_lead_without_a_team_is_explained(tenant: TenantFacts) -> None:
    boss = signed_in(make_user(superuser=True))
    sent = {"user": make_user().pk, "role": "lead"}
    answer = boss.post(f"/admin/tenants/membership/add/?tenant={tenant.slug}", sent)
    assert "needs a team" in answer.content.decode()


def test_a_superusers_look_is_audited_with_each_tenant(tenant: TenantFacts, rival: TenantFacts) -> None:
    key = fill(tenant)
    client = signed_in(make_user(superuser=True))
    page(client, f"key/{key.pk}/change/", tenant=tenant.slug)
    page(client, "key/", tenant=tenant.slug)
    assert actions_of(tenant).count("staff.read") == 2
    assert actions_of(rival).count("staff.read") == 0


def test_a_members_look_is_not_audited(tenant: TenantFacts) -> None:
    fill(tenant)
    page(signed_in(make_member(tenant, role=Role.MANAGER)), "key/")
    assert actions_of(tenant).count("staff.read") == 0


def test_the_audit_and_usage_are_read_only(tenant: TenantFacts) -> None:
    fill(tenant)
    client = signed_in(make_user(superuser=True))
    for table in ("auditentry", "usage"):
        assert page(client, f"{table}/add/", tenant=tenant.slug).status_code == 403
        text = page(client, f"{table}/", tenant=tenant.slug).content.decode()
        link = re.findall(rf'href="(/admin/tenants/{table}/[^"/]+/change/[^"]*)"', text)[0]
        assert 'name="_save"' not in client.get(link.replace("&amp;", "&")).content.decode()


def test_a_member_of_two_tenants_chooses(tenant: TenantFacts, rival: TenantFacts) -> None:
    fill(tenant)
    fill(rival)
    user = make_member(tenant, role=Role.MANAGER)
    make_member(rival, role=Role.VIEWER, user=user)
    client = signed_in(user)
    assert page(client, "key/", tenant=tenant.slug).status_code == 200
    assert f"name of {tenant.slug}" in page(client, "key/").content.decode()
    assert page(client, "key/", tenant=rival.slug).status_code == 403
    assert page(client, "team/").status_code == 200


def test_a_list_takes_as_many_queries_for_many_rows(tenant: TenantFacts) -> None:
    client = signed_in(make_member(tenant, role=Role.MANAGER))
    make_key(tenant)
    client.get("/admin/tenants/key/")
    few = queries(client, "/admin/tenants/key/")
    for _ in range(20):
        make_key(tenant, name="more")
    assert queries(client, "/admin/tenants/key/") == few


def queries(client: Client, path: str) -> int:
    """Return how many queries a page takes."""
    with CaptureQueriesContext(connection) as taken:
        assert client.get(path).status_code == 200
    return len(taken)


def test_everyone_can_sign_out_and_change_the_password() -> None:
    client = signed_in(make_user())
    assert client.get("/admin/password_change/").status_code == 200
    assert client.post("/admin/logout/").status_code == 200


def test_a_new_expiry_is_kept(tenant: TenantFacts) -> None:
    client = signed_in(make_member(tenant, role=Role.MANAGER))
    later = timezone.now().replace(microsecond=0) + timedelta(days=3)
    sent = new_key(expires_at_0=later.date().isoformat(), expires_at_1=later.time().isoformat())
    caller = resolve(KEY_TEXT.findall(client.post("/admin/tenants/key/add/", sent).content.decode())[0])
    assert caller is not None
    assert caller.expires_at == later


def test_tenants_are_found_by_slug(tenant: TenantFacts, rival: TenantFacts) -> None:
    client = signed_in(make_user(superuser=True))
    text = page(client, "tenant/", q=tenant.slug).content.decode()
    assert rival.slug not in re.sub(r"<nav.*?</nav>", "", text, flags=re.DOTALL)


def test_a_superuser_adds_a_person(tenant: TenantFacts) -> None:
    client = signed_in(make_user(superuser=True))
    name = f"{tenant.slug}-person"
    passwords = {"usable_password": "true", "password1": "a rather long one", "password2": "a rather long one"}
    answer = client.post("/admin/tenants/user/add/", {"username": name, "is_staff": "on", **passwords})
    assert answer.status_code == 302
    person = User.objects.get(username=name)
    assert (person.is_staff, person.is_superuser) == (True, False)
    changed = {"username": name, "is_active": "on", "date_joined_0": "2026-01-01", "date_joined_1": "10:00:00"}
    assert client.post(f"/admin/tenants/user/{person.pk}/change/", changed).status_code == 302
    assert not User.objects.get(username=name).is_staff


def test_an_address_that_makes_no_sense_is_not_found(tenant: TenantFacts) -> None:
    client = signed_in(make_user(superuser=True))
    for path in ("key/?tenant=%00x", "key/add/?tenant=no+slug", f"key/?tenant={tenant.slug}x"):
        assert client.get(f"/admin/tenants/{path}").status_code == 404
    for path in ("key/no-number/change/", f"key/{10**30}/change/"):
        assert client.get(f"/admin/tenants/{path}").status_code == 302
    assert client.get("/admin/knowledge/page/?source=%00").status_code == 200
    assert client.get("/admin/knowledge/page/?q=%00").status_code == 200
