"""What the database itself keeps apart, whatever the code above forgets."""

from __future__ import annotations

from typing import Any

import pytest
from django.apps import apps
from django.db import DatabaseError, IntegrityError, connections, transaction

from tenants.facts import TenantFacts
from tenants.models import Key, Team
from tenants.rows import TenantChanged, TenantModel
from tenants.scope import ScopeMixedUp, tenant_scope
from tests.make import make_key

# Tables of the database that carry no tenant, each with its reason.
TENANTLESS_TABLES = {
    "auth_group": "names of rights",
    "auth_group_permissions": "names of rights",
    "auth_permission": "names of rights",
    "django_admin_log": "superusers' own log",
    "django_content_type": "names of models",
    "django_migrations": "state of the schema",
    "django_session": "asked before a tenant is known",
    "tenants_user": "a person may work for several tenants",
    "tenants_user_groups": "names of rights",
    "tenants_user_user_permissions": "names of rights",
    "knowledge_embeddingmodel": "facts of models, the same for everyone",
}


def rows(statement: str, *params: Any, alias: str = "default") -> list[tuple[Any, ...]]:
    """Run a statement and return its rows."""
    with connections[alias].cursor() as cursor:
        cursor.execute(statement, params)
        return list(cursor.fetchall())


def test_it_works(tenant: TenantFacts) -> None:
    with tenant_scope(tenant):
        assert rows("SELECT kb_tenant_id()") == [(tenant.id,)]


def test_no_scope_raises() -> None:
    with pytest.raises(DatabaseError, match="tenant context missing"):
        rows("SELECT * FROM tenants_team")


def test_the_scope_ends_with_its_block(tenant: TenantFacts) -> None:
    with tenant_scope(tenant):
        pass
    with pytest.raises(DatabaseError, match="tenant context missing"):
        rows("SELECT kb_tenant_id()")


def test_the_scope_ends_when_its_block_fails(tenant: TenantFacts) -> None:
    with pytest.raises(ZeroDivisionError), tenant_scope(tenant):
        raise ZeroDivisionError
    with pytest.raises(DatabaseError, match="tenant context missing"):
        rows("SELECT kb_tenant_id()")


def test_another_scope_inside_raises(tenant: TenantFacts, rival: TenantFacts) -> None:
    with tenant_scope(tenant), pytest.raises(ScopeMixedUp), tenant_scope(rival):
        raise AssertionError("entered")


def test_the_same_scope_inside_is_fine(tenant: TenantFacts) -> None:
    with tenant_scope(tenant), tenant_scope(tenant):
        assert rows("SELECT kb_tenant_id()") == [(tenant.id,)]


def test_raw_sql_without_a_where_sees_no_foreign_row(tenant: TenantFacts, rival: TenantFacts) -> None:
    make_key(tenant)
    make_key(rival)
    for table in tenant_tables():
        column = "id" if table == "tenants_tenant" else "tenant_id"
        with tenant_scope(tenant):
            seen = {row[0] for row in rows(f"SELECT {column} FROM {table}")}
        assert seen <= {tenant.id}, table


def test_a_row_of_another_tenant_cannot_be_written(tenant: TenantFacts, rival: TenantFacts) -> None:
    with pytest.raises(DatabaseError, match="row-level security"), tenant_scope(tenant):
        Team.objects.create(tenant_id=rival.id, name="spy")


def test_a_reference_into_another_tenant_is_refused(tenant: TenantFacts, rival: TenantFacts) -> None:
    make_key(rival, team="theirs")
    with tenant_scope(rival):
        foreign = Team.objects.get(tenant_id=rival.id, name="theirs")
    with pytest.raises(IntegrityError), tenant_scope(tenant):
        Key.objects.create(tenant_id=tenant.id, team_id=foreign.id, public_id="kb_sk_spy")


def test_a_row_cannot_change_its_tenant(tenant: TenantFacts, rival: TenantFacts) -> None:
    with tenant_scope(tenant):
        Team.objects.create(tenant_id=tenant.id, name="mine")
        team = Team.objects.get(tenant_id=tenant.id, name="mine")
        team.tenant_id = rival.id
        with pytest.raises(TenantChanged):
            team.save()


def test_joins_carry_the_tenant(tenant: TenantFacts) -> None:
    forward = str(Key.objects.filter(team__name="x").query)
    backward = str(Team.objects.filter(keys__name="x").query)
    assert '"tenants_team"."tenant_id" = ("tenants_key"."tenant_id")' in forward
    assert '"tenants_team"."tenant_id" = ("tenants_key"."tenant_id")' in backward


def test_truncate_is_not_granted(tenant: TenantFacts) -> None:
    with pytest.raises(DatabaseError, match="permission denied"), tenant_scope(tenant):
        rows("TRUNCATE tenants_team CASCADE")


def test_kb_app_cannot_become_another_role(tenant: TenantFacts) -> None:
    for role in ("kb_owner", "kb_search", "kb_staff", "postgres"):
        with pytest.raises(DatabaseError, match="permission denied"), transaction.atomic():
            rows(f"SET ROLE {role}")


def test_audit_entries_cannot_be_changed(tenant: TenantFacts) -> None:
    with pytest.raises(DatabaseError, match="permission denied"), tenant_scope(tenant):
        rows("UPDATE tenants_auditentry SET actor = 'nobody'")


def tenant_tables() -> list[str]:
    """Return every table of the schema public that is not listed as tenant-less."""
    found = rows(
        "SELECT relname FROM pg_class WHERE relnamespace = 'public'::regnamespace AND relkind IN ('r', 'p')"
        " AND relname NOT LIKE 'procrastinate_%%'",
        alias="owner",
    )
    return sorted(name for (name,) in found if name not in TENANTLESS_TABLES)


def test_the_catalogue_forces_row_security_everywhere() -> None:
    facts = dict(
        rows(
            "SELECT relname, relrowsecurity AND relforcerowsecurity FROM pg_class WHERE relkind IN ('r','p')",
            alias="owner",
        )
    )
    assert [table for table in tenant_tables() if not facts[table]] == []


def test_the_catalogue_has_the_policies_everywhere() -> None:
    policies = rows("SELECT tablename, policyname, roles::text, coalesce(qual, '') FROM pg_policies", alias="owner")
    by_table: dict[str, dict[str, tuple[str, str]]] = {}
    for table, name, roles, rule in policies:
        by_table.setdefault(table, {})[name] = (roles, rule)
    for table in tenant_tables():
        column = "id" if table == "tenants_tenant" else "tenant_id"
        assert by_table[table]["tenant_rows"] == ("{kb_app}", f"({column} = kb_tenant_id())"), table
        assert by_table[table]["all_rows"] == ("{kb_owner,kb_staff}", "true"), table
        assert set(by_table[table]) <= {"tenant_rows", "all_rows", "search_rows"}, table


def test_the_catalogue_starts_every_key_with_the_tenant() -> None:
    keys = rows(
        "SELECT c.relname, i.relname, a.attname FROM pg_index x JOIN pg_class c ON c.oid = x.indrelid"
        " JOIN pg_class i ON i.oid = x.indexrelid JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum = x.indkey[0]"
        " WHERE x.indisunique AND c.relnamespace = 'public'::regnamespace",
        alias="owner",
    )
    mine = set(tenant_tables()) - {"tenants_tenant"}
    assert [(table, index) for table, index, first in keys if table in mine and first != "tenant_id"] == []


def test_the_catalogue_carries_the_tenant_in_every_reference() -> None:
    references = rows(
        "SELECT k.conrelid::regclass::text, k.conname, cardinality(k.conkey) FROM pg_constraint k"
        " WHERE k.contype = 'f' AND k.connamespace = 'public'::regnamespace"
        " AND k.confrelid::regclass::text NOT IN ('tenants_tenant')",
        alias="owner",
    )
    mine, outside = set(tenant_tables()), {"tenants_user", "knowledge_embeddingmodel"}
    single = [(table, name) for table, name, width in references if table in mine and width < 2]
    assert [pair for pair in single if not any(name in pair[1] for name in ("user_id", "model_id"))] == [], outside


def test_no_role_bypasses_row_security() -> None:
    found = rows(
        "SELECT rolname FROM pg_roles WHERE rolname LIKE 'kb\\_%%' AND (rolbypassrls OR rolsuper OR rolcreaterole)",
        alias="owner",
    )
    assert found == []


def test_tenant_tables_have_no_triggers_of_ours() -> None:
    found = rows("SELECT tgrelid::regclass::text FROM pg_trigger WHERE NOT tgisinternal", alias="owner")
    assert [table for (table,) in found if not table.startswith("procrastinate_")] == []


def test_every_tenant_model_is_a_tenant_table() -> None:
    tables = {model._meta.db_table for model in apps.get_models() if issubclass(model, TenantModel)}
    assert tables <= set(tenant_tables())
