"""Migration operations that make a table a tenant's: keys, references and row-level security.

The policies name roles and never bypass anything inside: ``CASE WHEN admin`` in a policy turns index
scans into table scans. kb_owner and kb_staff have a policy of their own, because without one data
migrations would silently touch no row and foreign keys would be added over violating rows.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from django.apps import apps
from django.db import models
from django.db.backends.base.schema import BaseDatabaseSchemaEditor
from django.db.migrations.operations.base import Operation
from django.db.migrations.state import ProjectState

from tenants.rows import TenantForeignKey


class SecureTable(Operation):
    """Give a table its composite key, composite references and policies.

    search=True adds the SELECT policy of kb_search, for tables that the search functions read.
    column is what carries the tenant: "tenant_id", or "id" on the table of tenants itself, which keeps
    its plain key.
    """

    reversible = True
    reduces_to_sql = True

    def __init__(
        self, model: str, *, search: bool = False, column: str = "tenant_id", append_only: bool = False
    ) -> None:
        self.model, self.search, self.column, self.append_only = model, search, column, append_only

    def deconstruct(self) -> tuple[str, list[Any], dict[str, Any]]:
        """Return what rebuilds the operation."""
        options = {"search": self.search, "column": self.column, "append_only": self.append_only}
        return type(self).__name__, [self.model], options

    def describe(self) -> str:
        """Say what the operation does."""
        return f"Secure the rows of {self.model} by tenant"

    def state_forwards(self, app_label: str, state: ProjectState) -> None:
        """Change nothing in Django's state: keys and policies are the database's own."""

    def database_forwards(
        self, app_label: str, editor: BaseDatabaseSchemaEditor, before: ProjectState, after: ProjectState
    ) -> None:
        """Run the statements."""
        for statement in self.statements(after.apps.get_model(app_label, self.model)):
            editor.execute(statement)

    def database_backwards(
        self, app_label: str, editor: BaseDatabaseSchemaEditor, before: ProjectState, after: ProjectState
    ) -> None:
        """Do nothing: the table itself goes with the migration that made it."""

    def statements(self, model: type[models.Model]) -> list[str]:
        """Return the SQL for this model's table, in order."""
        table = model._meta.db_table
        keys = [] if self.column == "id" else [*_primary_key(model), *_references(model)]
        rights = [f"REVOKE UPDATE, DELETE ON {table} FROM kb_app, kb_staff"] if self.append_only else []
        return [*keys, *policies(table, search=self.search, column=self.column), *rights]


def policies(table: str, *, search: bool, column: str = "tenant_id") -> list[str]:
    """Return the statements that force row-level security on a table."""
    mine = f"{column} = kb_tenant_id()"
    found = [
        f"ALTER TABLE {table} ENABLE ROW LEVEL SECURITY",
        f"ALTER TABLE {table} FORCE ROW LEVEL SECURITY",
        f"CREATE POLICY tenant_rows ON {table} TO kb_app USING ({mine}) WITH CHECK ({mine})",
        f"CREATE POLICY all_rows ON {table} TO kb_owner, kb_staff USING (true) WITH CHECK (true)",
    ]
    if search:
        found += [
            f"CREATE POLICY search_rows ON {table} FOR SELECT TO kb_search USING (true)",
            f"GRANT SELECT ON {table} TO kb_search",
        ]
    return found


def _primary_key(model: type[models.Model]) -> list[str]:
    table = model._meta.db_table
    if isinstance(model._meta.pk, models.CompositePrimaryKey):
        return []  # a table without an id of its own says its key itself
    return [
        f"ALTER TABLE {table} DROP CONSTRAINT {table}_pkey CASCADE",
        f"ALTER TABLE {table} ADD CONSTRAINT {table}_pkey PRIMARY KEY (tenant_id, id)",
    ]


def _references(model: type[models.Model]) -> list[str]:
    table, found = model._meta.db_table, []
    for field in model._meta.local_fields:
        if not isinstance(field, TenantForeignKey):
            continue
        target, column = field.remote_field.model._meta.db_table, field.column
        found += [
            f"ALTER TABLE {table} ADD CONSTRAINT {table}_{column}_fk FOREIGN KEY (tenant_id, {column}) "
            f"REFERENCES {target} (tenant_id, id) {_on_delete(field, column)} DEFERRABLE INITIALLY DEFERRED",
        ]
        if not _indexed_by_a_key(model, field):
            found.append(f"CREATE INDEX {table}_{column}_idx ON {table} (tenant_id, {column})")
    return found


def _indexed_by_a_key(model: type[models.Model], field: TenantForeignKey) -> bool:
    """Tell whether a unique constraint or the primary key already starts with (tenant, field)."""
    uniques = [c for c in model._meta.constraints if isinstance(c, models.UniqueConstraint) and c.condition is None]
    if any(list(unique.fields[:2]) == ["tenant", field.name] for unique in uniques):
        return True
    key = model._meta.pk
    return isinstance(key, models.CompositePrimaryKey) and list(key.field_names[:2]) == ["tenant_id", field.column]


def _on_delete(field: TenantForeignKey, column: str) -> str:
    if field.remote_field.on_delete is models.CASCADE:
        return "ON DELETE CASCADE"
    if field.remote_field.on_delete is models.SET_NULL:
        return f"ON DELETE SET NULL ({column})"
    return "ON DELETE NO ACTION"


class SqlFile(Operation):
    """Run a file of SQL, named relative to the project (``tenants/sql/functions.sql``), as kb_owner."""

    reversible = True
    reduces_to_sql = True

    def __init__(self, file: str, *, backwards: str = "") -> None:
        self.file, self.backwards = file, backwards

    def deconstruct(self) -> tuple[str, list[Any], dict[str, Any]]:
        """Return what rebuilds the operation."""
        return type(self).__name__, [self.file], {"backwards": self.backwards}

    def describe(self) -> str:
        """Say what the operation does."""
        return f"Run {self.file}"

    def state_forwards(self, app_label: str, state: ProjectState) -> None:
        """Change nothing in Django's state."""

    def database_forwards(
        self, app_label: str, editor: BaseDatabaseSchemaEditor, before: ProjectState, after: ProjectState
    ) -> None:
        """Run the file."""
        editor.execute(read_sql(self.file), params=None)

    def database_backwards(
        self, app_label: str, editor: BaseDatabaseSchemaEditor, before: ProjectState, after: ProjectState
    ) -> None:
        """Run the statements that undo the file."""
        if self.backwards:
            editor.execute(self.backwards, params=None)


def read_sql(file: str) -> str:
    """Return the text of a SQL file of an app, named ``app/sql/name.sql``."""
    label, _, rest = file.partition("/")
    return (Path(apps.get_app_config(label).path) / rest).read_text(encoding="utf-8")
