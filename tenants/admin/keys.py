"""Which keys are there, and what may each do?"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django.contrib import admin, messages
from django.contrib.admin.utils import unquote
from django.core.exceptions import PermissionDenied
from django.db.models import QuerySet
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.urls import URLPattern, path
from django.utils import timezone
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from tenants.admin.base import RowAdmin, TenantFilter, actor
from tenants.admin.keyforms import KeyForm, NewKeyForm, RotateForm
from tenants.keys import NewKey, create_key, revoke_key, rotate_key
from tenants.limits import LIMITS
from tenants.models import Key, Role
from tenants.staff import Access, acting_in

_MAY = ("scopes", "allowed_models", "placement", "cache_enabled", "subagent_knowledge", "origins", "expires_at")
_KNOWLEDGE = ("sources", "source_types", "products", "user_facing")


class StateFilter(admin.SimpleListFilter):
    """Keys that open something, and keys that were ended."""

    title = _("state")
    parameter_name = "state"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, Any]]:
        """Return the states."""
        return [("active", _("active")), ("revoked", _("revoked"))]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Key]) -> QuerySet[Key]:
        """Narrow the keys."""
        if self.value() is None:
            return queryset
        return queryset.filter(revoked_at__isnull=self.value() == "active")


@admin.register(Key)
class KeyAdmin(RowAdmin[Key]):
    """Keys: made here and shown once, rotated, revoked; never deleted, and their digests never shown."""

    form = KeyForm
    view_role = add_role = change_role = Role.MANAGER
    lead_may = frozenset({"view", "add", "change"})
    list_display = ("public_id", "name", "team", "tenant", "kind", "scope_names", "expires_at", "revoked_at")
    list_select_related = ("tenant", "team")
    list_filter = (TenantFilter, StateFilter, "kind")
    search_fields = ("public_id", "name", "team__name")
    ordering = ("-created_at",)
    actions = ("revoke_selected",)
    fieldsets = (
        (None, {"fields": ("tenant", "team", "public_id", "kind", "name", "created_at", "revoked_at")}),
        (_("May"), {"fields": _MAY}),
        (_("Knowledge it sees (empty: all)"), {"fields": _KNOWLEDGE}),
        (_("Limits"), {"fields": LIMITS}),
    )
    add_fieldsets = (
        (None, {"fields": ("tenant", "team_name", "kind", "name")}),
        (_("May"), {"fields": [name for name in _MAY if name != "subagent_knowledge"]}),
        *fieldsets[2:],
    )

    @admin.display(description=_("scopes"))
    def scope_names(self, key: Key) -> str:
        """Return the scopes as a list cell shows them."""
        return ", ".join(key.scopes)

    def of_team(self, rows: QuerySet[Key], mine: Access) -> QuerySet[Key]:
        """Return the own team's keys, without those that may manage the tenant."""
        return rows.filter(team_id=mine.team_id or 0).exclude(scopes__contains=["manage"])

    def get_fieldsets(self, request: HttpRequest, obj: Key | None = None) -> Any:
        """Return what can be said of a key, or asked of a new one."""
        return self.fieldsets if obj is not None else self.add_fieldsets

    def get_readonly_fields(self, request: HttpRequest, obj: Key | None = None) -> Any:
        """Keep what a key is."""
        fixed = ("team", "public_id", "kind", "created_at", "revoked_at") if obj is not None else ()
        return [*super().get_readonly_fields(request, obj), *fixed]

    def get_form(self, request: HttpRequest, obj: Key | None = None, change: bool = False, **kwargs: Any) -> Any:
        """Return the form of a key, or of a new one."""
        if obj is None:
            kwargs["form"] = NewKeyForm
        return super().get_form(request, obj, change, **kwargs)

    def save_model(self, request: HttpRequest, obj: Key, form: Any, change: bool) -> None:
        """Change the key, or make it by the same door as the command."""
        if change:
            super().save_model(request, obj, form, change)
            return
        with acting_in(obj.tenant_id):
            made = create_key(obj.tenant, form.cleaned_data["team_name"], options=form.options(), actor=actor(request))
        obj.id, obj.public_id, obj.team_id = made.row.id, made.row.public_id, made.row.team_id
        form.made = made

    def changed_columns(self, form: Any) -> list[str]:
        """Return the changed columns; the limits are one."""
        return [*super().changed_columns(form), "limits"]

    def construct_change_message(self, request: HttpRequest, form: Any, formsets: Any, add: bool = False) -> Any:
        """Keep the new key for the one page that shows it."""
        request.made_key = getattr(form, "made", None)  # type: ignore[attr-defined]
        return super().construct_change_message(request, form, formsets, add)

    def log_addition(self, request: HttpRequest, obj: Any, message: Any) -> Any:
        """Add nothing: create_key wrote the entry."""

    def response_add(self, request: HttpRequest, obj: Key, post_url_continue: str | None = None) -> HttpResponse:
        """Show the key, in this answer and never again."""
        made: NewKey = request.made_key  # type: ignore[attr-defined]
        return self._shown_once(request, obj, made)

    def _shown_once(self, request: HttpRequest, key: Key, made: NewKey) -> TemplateResponse:
        context = self._context(request, key, gettext("The key, shown once")) | {"text": made.text}
        return TemplateResponse(request, "admin/key_shown_once.html", context)

    def _context(self, request: HttpRequest, key: Key, title: str) -> dict[str, Any]:
        context = {"title": title, "opts": self.opts, "back": self.address(key), "key": key}
        return {**self.admin_site.each_context(request), **context}

    def get_urls(self) -> list[URLPattern]:
        """Add the pages that rotate and revoke a key."""
        inside: Callable[..., Any] = self.admin_site.admin_view
        return [
            path("<path:object_id>/rotate/", inside(self.rotate_view), name="tenants_key_rotate"),
            path("<path:object_id>/revoke/", inside(self.revoke_view), name="tenants_key_revoke"),
            *super().get_urls(),
        ]

    def rotate_view(self, request: HttpRequest, object_id: str) -> HttpResponse:
        """Ask how long the old secret lives on, then show the new one once."""
        key = self._changeable(request, object_id)
        form = RotateForm(request.POST if request.method == "POST" else None)
        if form.is_valid():
            with acting_in(key.tenant_id):
                made = rotate_key(key.tenant, key.public_id, overlap=form.span(), actor=actor(request))
            return self._shown_once(request, key, made)
        context = self._context(request, key, gettext("Give the key a new secret?")) | {
            "form": form,
            "say": gettext("Rotate"),
            "names": [key],
        }
        return TemplateResponse(request, "admin/confirm.html", context)

    def revoke_view(self, request: HttpRequest, object_id: str) -> HttpResponse:
        """Ask, then end the key."""
        key = self._changeable(request, object_id)
        if request.method == "POST":
            self._revoke(request, [key])
            return HttpResponseRedirect(self.address(key))
        context = self._context(request, key, gettext("Revoke this key for ever?")) | {
            "say": gettext("Revoke"),
            "names": [key],
        }
        return TemplateResponse(request, "admin/confirm.html", context)

    @admin.action(description=_("Revoke the selected keys"), permissions=["change"])
    def revoke_selected(self, request: HttpRequest, keys: QuerySet[Key]) -> HttpResponse | None:
        """Ask, then end the keys."""
        if "confirmed" in request.POST:
            self._revoke(request, list(keys))
            return None
        title, say = gettext("Revoke these keys for ever?"), gettext("Revoke")
        return self.ask_first(request, keys, action="revoke_selected", title=title, say=say)

    def _changeable(self, request: HttpRequest, object_id: str) -> Key:
        key: Key | None = self.get_object(request, unquote(object_id))
        if key is None or key.revoked_at is not None:
            raise Http404
        if not self.has_change_permission(request, key):
            raise PermissionDenied
        return key

    def _revoke(self, request: HttpRequest, keys: list[Key]) -> None:
        for key in keys:
            with acting_in(key.tenant_id):
                revoke_key(key.tenant, key.public_id, actor=actor(request))
        self.message_user(request, gettext("Revoked: %s") % ", ".join(map(str, keys)), messages.SUCCESS)

    def change_view(
        self, request: HttpRequest, object_id: str, form_url: str = "", extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        """Offer to rotate and revoke a key that still opens something."""
        return super().change_view(request, object_id, form_url, {"now": timezone.now(), **(extra_context or {})})
