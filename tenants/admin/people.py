"""Who can sign in? Superusers only: a person may work for several tenants."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.contrib.auth.admin import UserAdmin
from django.contrib.auth.models import Group
from django.http import HttpRequest
from django.utils.translation import gettext_lazy as _

from tenants.adminsite import is_superuser
from tenants.models import User

# Roles are given by memberships; Django's groups and rights would be a second way that nothing asks.
admin.site.unregister(Group)


@admin.register(User)
class PersonAdmin(UserAdmin[User]):
    """People; a member needs staff status to sign in, and a membership to see anything."""

    fieldsets = (
        (None, {"fields": ("username", "password")}),
        (_("Person"), {"fields": ("first_name", "last_name", "email")}),
        (_("May"), {"fields": ("is_active", "is_staff", "is_superuser")}),
        (_("Dates"), {"fields": ("last_login", "date_joined")}),
    )
    add_fieldsets = (
        (None, {"classes": ("wide",), "fields": ("username", "usable_password", "password1", "password2", "is_staff")}),
    )
    list_filter = ("is_staff", "is_superuser", "is_active")
    filter_horizontal = ()
    show_full_result_count = False

    def has_module_permission(self, request: HttpRequest) -> bool:
        """Tell whether the user is a superuser."""
        return is_superuser(request)

    def has_view_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Tell whether the user is a superuser."""
        return is_superuser(request)

    def has_add_permission(self, request: HttpRequest) -> bool:
        """Tell whether the user is a superuser."""
        return is_superuser(request)

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Tell whether the user is a superuser."""
        return is_superuser(request)

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Nobody is deleted: the audit names them. Take their staff or active status away."""
        return False
