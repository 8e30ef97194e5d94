"""The admin pages of sources and pages."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import Any
from uuid import UUID

from django import forms
from django.contrib import admin, messages
from django.core.exceptions import ValidationError
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext, ngettext
from django.utils.translation import gettext_lazy as _

from knowledge import index
from knowledge.index.statistics import bump_version
from knowledge.models import FLAGS, Page, Source
from tenants import audit
from tenants.admin.base import RowAdmin, TenantFilter, TenantForm, actor
from tenants.adminsite import access_of, asked_slug
from tenants.languages import UnknownLanguage, language_code
from tenants.models import Role
from tenants.registry import read_facts
from tenants.staff import acting_in

_MARKS = (("", _("the source decides")), ("true", _("visible to visitors")), ("false", _("internal")))
_LONGEST_SHOWN = 20_000
_MOST_SOURCES = 200


def _language(text: str) -> str:
    try:
        return language_code(text)
    except UnknownLanguage as error:
        raise ValidationError(str(error)) from error


class MarkField(forms.TypedChoiceField):
    """Visible, internal, or not marked."""

    def __init__(self, **kwargs: Any) -> None:
        kwargs |= {"choices": _MARKS, "required": False, "empty_value": None}
        super().__init__(coerce=lambda text: text == "true", **kwargs)

    def prepare_value(self, value: Any) -> Any:
        """Return the choice that stands for a stored mark."""
        return {True: "true", False: "false", None: ""}.get(value, value)

    def has_changed(self, initial: Any, data: Any) -> bool:
        """Compare the choices."""
        return bool(self.prepare_value(initial) != (data or ""))


@admin.register(Source)
class SourceAdmin(RowAdmin[Source]):
    """Sources; what they say holds for pages that say nothing themselves."""

    add_role = change_role = Role.EDITOR
    list_display = ("name", "tenant", "kind", "source_type", "app", "product", "user_facing", "last_sync_at")
    list_filter = (TenantFilter, "kind")
    search_fields = ("name", "=product", "=app")
    ordering = ("name",)
    fields = ("tenant", "name", "kind", "source_type", "app", "product", "user_facing", "last_sync_at")

    def formfield_for_dbfield(self, db_field: Any, request: Any, **kwargs: Any) -> Any:
        """Offer the mark in words."""
        if db_field.name == "user_facing":
            return MarkField(label=_("Visitors"), help_text=_("unmarked: the tenant's rule decides"))
        return super().formfield_for_dbfield(db_field, request, **kwargs)

    def get_readonly_fields(self, request: HttpRequest, obj: Source | None = None) -> Any:
        """Keep the name and kind: keys and the next sync find the source by them."""
        fixed = ["name", "kind"] if obj is not None else []
        return [*super().get_readonly_fields(request, obj), *fixed, "last_sync_at"]

    def save_model(self, request: HttpRequest, obj: Source, form: Any, change: bool) -> None:
        """Write the source; what it says of its pages changes what can be retrieved."""
        super().save_model(request, obj, form, change)
        if change and form.changed_data:
            with acting_in(obj.tenant_id):
                bump_version(obj.tenant_id)


class SourceFilter(admin.SimpleListFilter):
    """The chosen tenant's sources."""

    title = _("source")
    parameter_name = "source"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        """Return the sources, once a tenant is chosen."""
        mine, slug = access_of(request), asked_slug(request)
        sources = Source.objects.filter(tenant__slug=mine.slug if mine is not None else slug)
        names = sources.order_by("name").values_list("name", flat=True)[:_MOST_SOURCES]
        return [(name, name) for name in names]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Page]) -> QuerySet[Page]:
        """Narrow the pages."""
        name = (self.value() or "").replace("\0", "")
        return queryset.filter(source__name=name) if name else queryset


class PageForm(TenantForm[Page]):
    """A page's flags."""

    def clean_language(self) -> str:
        """Return the language's ISO code."""
        return _language(self.cleaned_data["language"])


class FlagForm(forms.Form):
    """One flag and its value, for many pages."""

    flag = forms.ChoiceField(label=_("Set"), choices=[(name, name) for name in FLAGS if name != "user_facing"])
    value = forms.CharField(label=_("to"), required=False, max_length=100, help_text=_("empty: the source decides"))

    def clean(self) -> dict[str, Any]:
        """Check the value against its flag."""
        found = super().clean() or {}
        name, value = found.get("flag"), found.get("value", "")
        if name == "language":
            try:
                found["value"] = _language(value)
            except ValidationError as error:
                self.add_error("value", error)
        longest = getattr(Page._meta.get_field(name), "max_length", None) if name else None
        if longest is not None and len(value) > longest:
            self.add_error("value", gettext("%s characters at most") % longest)
        return found


@admin.register(Page)
class PageAdmin(RowAdmin[Page]):
    """Pages: their flags are set here, by hand, which outlives every later ingest."""

    form = PageForm
    change_role = Role.EDITOR
    list_display = ("title", "path", "tenant", "source", "product", "user_facing", "chunk_count", "updated_at")
    list_select_related = ("tenant", "source")
    list_filter = (TenantFilter, SourceFilter, "user_facing", "made_by")
    search_fields = ("title", "path", "=slug", "=product", "=app")
    ordering = ("-updated_at",)
    actions = ("show_to_visitors", "keep_internal", "clear_mark", "set_flag", "delete_pages")
    fieldsets = (
        (None, {"fields": ("tenant", "source", "title", "path", "slug", "url")}),
        (_("Flags"), {"fields": (*FLAGS, "hand_flags")}),
        (_("State"), {"fields": ("made_by", "revision", "chunk_count", "created_at", "updated_at")}),
        (_("Text"), {"fields": ("text",)}),
    )
    readonly_fields = (
        *("source", "title", "path", "slug", "url", "hand_flags", "made_by"),
        *("revision", "chunk_count", "created_at", "updated_at", "text"),
    )

    def formfield_for_dbfield(self, db_field: Any, request: Any, **kwargs: Any) -> Any:
        """Offer the mark in words."""
        if db_field.name == "user_facing":
            return MarkField(label=_("Visitors"))
        return super().formfield_for_dbfield(db_field, request, **kwargs)

    def get_queryset(self, request: HttpRequest) -> QuerySet[Page]:
        """Return the pages; a list does without their texts."""
        rows = super().get_queryset(request)
        listed = request.resolver_match is not None and request.resolver_match.url_name == "knowledge_page_changelist"
        return rows.defer("body") if listed else rows

    @admin.display(description=_("text"))
    def text(self, page: Page) -> SafeString:
        """Return the text as it was ingested, cut when it is very long."""
        return format_html('<pre class="kb-text">{}</pre>', page.body[:_LONGEST_SHOWN])

    def save_model(self, request: HttpRequest, obj: Page, form: Any, change: bool) -> None:
        """Set the flags that were changed."""
        flags = {name: form.cleaned_data[name] for name in form.changed_data if name in FLAGS}
        if flags:
            _set_flags({obj.tenant_id: [obj.pk]}, flags, by=actor(request), audited=False)

    @admin.action(description=_("Make visible to visitors"), permissions=["change"])
    def show_to_visitors(self, request: HttpRequest, pages: QuerySet[Page]) -> None:
        """Mark pages as user-facing."""
        self._mark(request, pages, user_facing=True)

    @admin.action(description=_("Keep internal"), permissions=["change"])
    def keep_internal(self, request: HttpRequest, pages: QuerySet[Page]) -> None:
        """Mark pages as not user-facing."""
        self._mark(request, pages, user_facing=False)

    @admin.action(description=_("Clear the mark: the source decides"), permissions=["change"])
    def clear_mark(self, request: HttpRequest, pages: QuerySet[Page]) -> None:
        """Take the mark away."""
        self._mark(request, pages, user_facing=None)

    @admin.action(description=_("Set product, app, type or language…"), permissions=["change"])
    def set_flag(self, request: HttpRequest, pages: QuerySet[Page]) -> HttpResponse | None:
        """Ask which flag and value, then set it."""
        form = FlagForm(request.POST if "confirmed" in request.POST else None)
        if form.is_valid():
            self._mark(request, pages, **{form.cleaned_data["flag"]: form.cleaned_data["value"]})
            return None
        title, say = gettext("Set a flag of these pages"), gettext("Set")
        return self.ask_first(request, pages, action="set_flag", title=title, say=say, form=form)

    @admin.action(description=_("Delete…"), permissions=["change"])
    def delete_pages(self, request: HttpRequest, pages: QuerySet[Page]) -> HttpResponse | None:
        """Ask, then delete pages with their chunks."""
        if "confirmed" not in request.POST:
            title, say = gettext("Delete these pages and their chunks?"), gettext("Delete")
            return self.ask_first(request, pages, action="delete_pages", title=title, say=say)
        chosen = _by_tenant(pages)
        for tenant_id, ids in chosen.items():
            with acting_in(tenant_id):
                facts = read_facts(tenant_id)
                chunks = index.delete_pages(facts, page_ids=ids)
                detail = {"pages": len(ids), "chunks": chunks}
                audit.record(facts, actor(request), action="page.delete", subject=f"{len(ids)} pages", detail=detail)
        self._say(request, sum(map(len, chosen.values())))
        return None

    def _mark(self, request: HttpRequest, pages: QuerySet[Page], **flags: object) -> None:
        self._say(request, _set_flags(_by_tenant(pages), flags, by=actor(request)))

    def _say(self, request: HttpRequest, number: int) -> None:
        said = ngettext("%s page changed", "%s pages changed", number) % number
        self.message_user(request, said, messages.SUCCESS)


def _by_tenant(pages: QuerySet[Page]) -> dict[UUID, list[int]]:
    found: dict[UUID, list[int]] = defaultdict(list)
    for tenant_id, page_id in pages.order_by().values_list("tenant_id", "id"):
        found[tenant_id].append(page_id)
    return found


def _set_flags(chosen: Mapping[UUID, list[int]], flags: Mapping[str, object], *, by: str, audited: bool = True) -> int:
    """Set flags by hand, in each tenant from inside; return how many pages changed."""
    changed = 0
    for tenant_id, ids in chosen.items():
        with acting_in(tenant_id):
            facts = read_facts(tenant_id)
            moved = index.set_flags(facts, page_ids=ids, by_hand=True, **flags)
            if moved and audited:
                detail = {"flags": dict(flags), "pages": moved}
                audit.record(facts, by, action="page.flags", subject=f"{moved} pages", detail=detail)
        changed += moved
    return changed
