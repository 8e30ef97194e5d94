"""Who may enter which tenant?"""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.core.exceptions import ValidationError
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.translation import gettext_lazy as _

from tenants.admin.base import RowAdmin, TenantForm
from tenants.adminsite import is_superuser
from tenants.models import Membership, Role


class MembershipForm(TenantForm[Membership]):
    """A role; a lead's needs its team."""

    def clean(self) -> dict[str, Any]:
        """Check that a lead has a team."""
        found = super().clean() or {}
        if found.get("role") == Role.LEAD and not found.get("team"):
            raise ValidationError({"team": _("a team lead needs a team")})
        return found


@admin.register(Membership)
class MembershipAdmin(RowAdmin[Membership]):
    """Memberships: given by superusers, who know all people; changed and ended by the tenant's managers."""

    form = MembershipForm
    view_role = change_role = delete_role = Role.MANAGER
    add_role = "superuser"
    list_display = ("user", "tenant", "role", "team", "created_at")
    list_select_related = ("tenant", "user", "team")
    search_fields = ("user__username",)
    ordering = ("user__username",)
    autocomplete_fields = ("user",)
    fields = ("tenant", "user", "role", "team")

    def get_readonly_fields(self, request: HttpRequest, obj: Membership | None = None) -> Any:
        """Keep the person of a membership."""
        return [*super().get_readonly_fields(request, obj), *(["user"] if obj is not None else [])]

    def has_add_permission(self, request: HttpRequest) -> bool:
        """Tell whether the user is a superuser."""
        return is_superuser(request)

    def delete_model(self, request: HttpRequest, obj: Membership) -> None:
        """End the membership, by both halves of its key."""
        Membership.objects.filter(tenant_id=obj.tenant_id, id=obj.pk).delete()

    def get_deleted_objects(self, objs: Any, request: HttpRequest) -> Any:
        """Name what goes: the membership alone."""
        rows: QuerySet[Membership] | list[Membership] = objs
        return [str(row) for row in rows], {self.opts.verbose_name_plural: len(rows)}, set(), []
