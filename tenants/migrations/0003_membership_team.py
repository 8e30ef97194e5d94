"""The team that a team lead leads, and who may enter which tenant."""

import django.db.models.deletion
from django.db import migrations

import tenants.rows
from tenants.rowsecurity import SqlFile

REFERENCE = """
ALTER TABLE tenants_membership ADD CONSTRAINT tenants_membership_team_id_fk
  FOREIGN KEY (tenant_id, team_id) REFERENCES tenants_team (tenant_id, id)
  ON DELETE SET NULL (team_id) DEFERRABLE INITIALLY DEFERRED;
CREATE INDEX tenants_membership_team_id_idx ON tenants_membership (tenant_id, team_id);
"""


class Migration(migrations.Migration):
    dependencies = [("tenants", "0002_row_security")]

    operations = [
        migrations.AddField(
            model_name="membership",
            name="team",
            field=tenants.rows.TenantForeignKey(
                blank=True,
                help_text="the team that a team lead leads",
                null=True,
                on_delete=django.db.models.deletion.SET_NULL,
                related_name="+",
                to="tenants.team",
            ),
        ),
        migrations.RunSQL(REFERENCE, migrations.RunSQL.noop),
        SqlFile("tenants/sql/memberships.sql", backwards="DROP FUNCTION IF EXISTS kb_memberships(bigint)"),
    ]
