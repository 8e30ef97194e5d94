"""Base classes of every table that holds a tenant's rows."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Self

from django.db import models
from django.db.models.expressions import Col
from django.db.models.fields.related_lookups import RelatedExact
from django.db.models.sql.where import WhereNode

from tenants.ids import new_id


class TenantChanged(Exception):
    """A saved row was given to another tenant; make a new row there instead."""


class TenantModel(models.Model):
    """A row that belongs to one tenant; its key in the database is ``(tenant_id, id)``."""

    id = models.BigIntegerField(primary_key=True, default=new_id, editable=False)
    tenant = models.ForeignKey("tenants.Tenant", on_delete=models.CASCADE, related_name="+", db_index=False)

    class Meta:
        abstract = True

    @classmethod
    def from_db(cls, db: str | None, field_names: Collection[str], values: Collection[Any], **more: Any) -> Self:
        """Remember the tenant that the row was read with."""
        row = super().from_db(db, field_names, values, **more)
        row._read_tenant_id = row.__dict__.get("tenant_id")
        return row

    def save(self, *args: Any, **kwargs: Any) -> None:
        """Save the row; raises TenantChanged when its tenant is not the one it was read with."""
        before = self.__dict__.get("_read_tenant_id")
        if before is not None and before != self.tenant_id:
            raise TenantChanged(f"{self._meta.label} {self.pk} belongs to another tenant")
        super().save(*args, **kwargs)
        self._read_tenant_id: Any = self.tenant_id

    def _do_update(self, base_qs: Any, using: Any, pk_val: Any, values: Any, *rest: Any) -> Any:
        """Update by (tenant, id) and never write the tenant, which a sharded table could not move."""
        kept = [value for value in values if value[0].attname != "tenant_id"]
        return super()._do_update(base_qs.filter(tenant_id=self.tenant_id), using, pk_val, kept, *rest)


class TenantForeignKey(models.ForeignKey[Any, Any]):
    """A reference to a row of the same tenant.

    The database holds it to ``(tenant_id, x_id) -> (tenant_id, id)`` (made by SecureTable): a plain
    foreign key is checked past row-level security and would let a row point into another tenant. Joins
    and look-ups carry the tenant too.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        kwargs["db_constraint"] = False
        kwargs.setdefault("db_index", False)  # SecureTable makes (tenant_id, x_id)
        super().__init__(*args, **kwargs)

    def deconstruct(self) -> Any:
        """Leave out what the constructor always sets."""
        name, path, args, kwargs = super().deconstruct()
        kwargs.pop("db_constraint", None)
        kwargs.pop("db_index", None)
        return name, path, args, kwargs

    def get_extra_restriction(self, alias: str | None, related_alias: str | None) -> WhereNode | None:
        """Add ``a.tenant_id = b.tenant_id`` to every join."""
        if alias is None or related_alias is None:
            return None
        # alias is the referenced table's in a forward join, the referring one's in a reverse join
        left: Any = self.remote_field.model._meta.get_field("tenant")
        right: Any = self.model._meta.get_field("tenant")
        clause: Any = RelatedExact(Col(alias, left, left), Col(related_alias, right, right))
        return WhereNode([clause])

    def get_extra_descriptor_filter(self, instance: models.Model) -> dict[str, Any]:
        """Add the tenant to ``row.x`` look-ups."""
        return {"tenant_id": instance.__dict__["tenant_id"]}
