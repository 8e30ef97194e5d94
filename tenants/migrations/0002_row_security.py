"""Functions of the tenant scope, and row-level security on every table of this app."""

from django.db import migrations

from tenants.rowsecurity import SecureTable, SqlFile

DROP_TENANTLESS = """
DROP FUNCTION IF EXISTS kb_resolve_key(bytea);
DROP FUNCTION IF EXISTS kb_tenant_ids();
DROP FUNCTION IF EXISTS kb_memberships(bigint);
"""


class Migration(migrations.Migration):
    dependencies = [("tenants", "0001_initial")]

    operations = [
        SqlFile("tenants/sql/functions.sql", backwards="DROP FUNCTION IF EXISTS kb_tenant_id() CASCADE"),
        SecureTable("tenant", column="id"),
        SecureTable("team"),
        SecureTable("membership"),
        SecureTable("key"),
        SecureTable("keysecret"),
        SecureTable("auditentry", append_only=True),
        SecureTable("usage"),
        SqlFile("tenants/sql/tenantless.sql", backwards=DROP_TENANTLESS),
    ]
