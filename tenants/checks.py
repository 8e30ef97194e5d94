"""System checks: a model that could mix tenants stops `manage.py check`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from django.apps import AppConfig, apps
from django.core.checks import CheckMessage, Error, register
from django.db import models

from tenants.rows import TenantForeignKey, TenantModel

# Our own models that belong to no tenant, each with its reason.
TENANTLESS = {
    "tenants.Tenant": "is the tenant",
    "tenants.User": "a person may work for several tenants",
    "knowledge.EmbeddingModel": "facts of models, the same for everyone",
}
OUR_APPS = ("tenants", "knowledge", "proxy", "kbplatform")


@register()
def check_tenant_models(app_configs: Sequence[AppConfig] | None, **kwargs: Any) -> list[CheckMessage]:
    """Check that every model of ours is a TenantModel (or listed) with tenant-first uniques and references."""
    found: list[CheckMessage] = []
    for model in apps.get_models():
        if model._meta.app_label in OUR_APPS and model._meta.label not in TENANTLESS and not model._meta.auto_created:
            found += _problems(model)
    return found


def _problems(model: type[models.Model]) -> Iterable[CheckMessage]:
    if not issubclass(model, TenantModel):
        yield Error("is no TenantModel and not listed in tenants.checks.TENANTLESS", obj=model, id="tenants.E001")
        return
    for constraint in model._meta.constraints:
        if isinstance(constraint, models.UniqueConstraint) and tuple(constraint.fields)[:1] != ("tenant",):
            yield Error(f"constraint {constraint.name} does not start with tenant", obj=model, id="tenants.E002")
    for field in model._meta.local_fields:
        target = field.remote_field.model if field.remote_field else None
        if isinstance(target, type) and issubclass(target, TenantModel) and not isinstance(field, TenantForeignKey):
            yield Error(f"{field.name} must be a TenantForeignKey", obj=model, id="tenants.E003")
        if field.unique and not field.primary_key:
            yield Error(f"{field.name} is unique across tenants", obj=model, id="tenants.E004")
