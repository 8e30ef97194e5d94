"""Which tenants, teams, entries of the audit and answers are there?"""

from __future__ import annotations

from typing import Any

from django import forms
from django.conf import settings
from django.contrib import admin
from django.core.exceptions import ValidationError
from django.db import DEFAULT_DB_ALIAS
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.translation import gettext_lazy as _

from tenants.admin.base import ReadOnlyAdmin, RowAdmin, StaffModelAdmin, TenantFilter, actor
from tenants.admin.limits import LimitsForm
from tenants.adminsite import access_of, asked_slug, is_superuser
from tenants.connections import connected_as
from tenants.languages import UnknownLanguage, language_code
from tenants.limits import LIMITS
from tenants.models import AuditEntry, Role, Team, Tenant, Usage
from tenants.registry import SETTINGS, create_tenant, set_tenant
from tenants.staff import Access, acting_in


class TenantSettingsForm(forms.ModelForm[Tenant]):
    """A tenant's settings; the upstream credential is taken and never shown."""

    new_upstream_key = forms.CharField(
        label=_("Upstream key"),
        required=False,
        widget=forms.PasswordInput(attrs={"autocomplete": "off"}),
        help_text=_("kept encrypted and never shown; leave empty to keep what is there"),
    )
    forget_upstream_key = forms.BooleanField(label=_("Forget the upstream key"), required=False)

    def clean_language(self) -> str:
        """Return the language's ISO code."""
        try:
            return language_code(self.cleaned_data["language"])
        except UnknownLanguage as error:
            raise ValidationError(str(error)) from error

    def clean_upstream_url(self) -> str:
        """Return the address, by the same rule as everywhere."""
        text: str = self.cleaned_data["upstream_url"]
        try:
            return settings.CHECK_UPSTREAM_URL(text) if text else ""
        except ValueError as error:
            raise ValidationError(str(error)) from error

    def changed_settings(self) -> dict[str, str]:
        """Return the settings that were changed, as set_tenant takes them."""
        found = {name: _as_text(self.cleaned_data[name]) for name in self.changed_data if name in SETTINGS}
        if self.cleaned_data.get("forget_upstream_key"):
            return found | {"upstream_key": ""}
        key = self.cleaned_data.get("new_upstream_key")
        return found | {"upstream_key": key} if key else found


def _as_text(value: object) -> str:
    return ("on" if value else "off") if isinstance(value, bool) else str(value)


@admin.register(Tenant)
class TenantAdmin(StaffModelAdmin[Tenant]):
    """Tenants: made by superusers, set by their managers, never deleted here."""

    form = TenantSettingsForm
    add_role = "superuser"
    change_role = Role.MANAGER
    list_display = ("slug", "name", "language", "product", "placement", "created_at")
    list_filter = (TenantFilter,)
    search_fields = ("slug", "name")
    ordering = ("slug",)
    fieldsets = (
        (None, {"fields": ("slug", "name", "language", "product", "unmarked_pages", "created_at")}),
        (_("Knowledge"), {"fields": ("gate", "dense_weight", "top_k", "placement", "search_deadline_ms")}),
        (_("Budget of knowledge"), {"fields": ("tokens_per_question", "tokens_per_session")}),
        (
            _("Upstream"),
            {"fields": ("upstream_url", "new_upstream_key", "forget_upstream_key", "bring_your_own_key", "retries")},
        ),
    )
    add_fieldsets = ((None, {"fields": ("slug", "name", "language", "product")}),)

    def get_fieldsets(self, request: HttpRequest, obj: Tenant | None = None) -> Any:
        """Ask for little when a tenant is made: the rest has defaults."""
        return self.fieldsets if obj is not None else self.add_fieldsets

    def get_readonly_fields(self, request: HttpRequest, obj: Tenant | None = None) -> tuple[str, ...]:
        """Keep the slug: addresses and configurations carry it."""
        return ("slug", "created_at") if obj is not None else ()

    def has_add_permission(self, request: HttpRequest) -> bool:
        """Tell whether the user is a superuser."""
        return is_superuser(request)

    def get_queryset(self, request: HttpRequest) -> QuerySet[Tenant]:
        """Return the chosen tenant, or all of them for superusers."""
        mine = access_of(request)
        rows = super().get_queryset(request)
        if mine is not None:
            return rows.filter(id=mine.id)
        if not is_superuser(request):
            return rows.none()
        slug = asked_slug(request)
        return rows.filter(slug=slug) if slug else rows

    def tenant_row(self, obj: Any) -> Tenant:
        """Return the row itself."""
        tenant: Tenant = obj
        return tenant

    def save_model(self, request: HttpRequest, obj: Tenant, form: Any, change: bool) -> None:
        """Make or set the tenant by the same door as the commands."""
        if change:
            with acting_in(obj):
                set_tenant(obj, form.changed_settings(), actor=actor(request))
            return
        values = {name: form.cleaned_data[name] for name in ("name", "language", "product")}
        with connected_as(DEFAULT_DB_ALIAS):
            obj.id = create_tenant(obj.slug, **values, actor=actor(request)).id

    def log_addition(self, request: HttpRequest, obj: Any, message: Any) -> Any:
        """Add nothing: create_tenant wrote the entry."""

    def log_change(self, request: HttpRequest, obj: Any, message: Any) -> Any:
        """Add nothing: set_tenant wrote the entry."""


class TeamForm(LimitsForm[Team]):
    """A team and its limits."""


@admin.register(Team)
class TeamAdmin(RowAdmin[Team]):
    """Teams; not deleted here, because their keys and what they used belong to the record."""

    form = TeamForm
    add_role = change_role = Role.MANAGER
    list_display = ("name", "tenant", "created_at")
    search_fields = ("name",)
    ordering = ("name",)
    fieldsets = ((None, {"fields": ("tenant", "name")}), (_("Limits"), {"fields": LIMITS}))

    def changed_columns(self, form: Any) -> list[str]:
        """Return the changed columns; the limits are one."""
        return [*super().changed_columns(form), "limits"]


@admin.register(AuditEntry)
class AuditAdmin(ReadOnlyAdmin[AuditEntry]):
    """Who did what; written by the program only."""

    view_role = Role.MANAGER
    list_display = ("created_at", "tenant", "actor", "action", "subject")
    list_filter = (TenantFilter, ("created_at", admin.DateFieldListFilter))
    search_fields = ("actor", "action", "subject")
    search_help_text = _("a person, an action such as key.create, or what it was done to")
    ordering = ("-created_at",)


@admin.register(Usage)
class UsageAdmin(ReadOnlyAdmin[Usage]):
    """What answers cost; written by the program only."""

    view_role = Role.MANAGER
    lead_may = frozenset({"view"})
    list_display = (
        "created_at",
        "tenant",
        "team",
        "key_public_id",
        "model",
        "x_cache",
        "status",
        "input_tokens",
        "output_tokens",
        "knowledge_tokens",
        "total_ms",
    )
    list_filter = (TenantFilter, ("created_at", admin.DateFieldListFilter))
    search_fields = ("=request_id", "=key_public_id", "=team", "=model")
    search_help_text = _("a request, key, team or model, whole")
    ordering = ("-created_at",)

    def of_team(self, rows: QuerySet[Usage], mine: Access) -> QuerySet[Usage]:
        """Return the own team's rows."""
        return rows.filter(team__in=Team.objects.filter(tenant_id=mine.id, id=mine.team_id or 0).values("name"))
