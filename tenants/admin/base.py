"""What every admin page of tenants' rows has in common."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, ClassVar, TypeVar
from uuid import UUID

from django import forms
from django.contrib import admin
from django.contrib.admin.helpers import ACTION_CHECKBOX_NAME
from django.contrib.admin.utils import quote
from django.contrib.admin.views.main import ChangeList
from django.core.exceptions import MultipleObjectsReturned, PermissionDenied
from django.core.paginator import Paginator
from django.db.models import Model, QuerySet
from django.forms import ModelForm
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.urls import reverse
from django.utils.functional import cached_property
from django.utils.http import urlencode
from django.utils.translation import gettext_lazy as _

from tenants import audit, changes
from tenants.adminsite import access_of, asked_slug, is_superuser
from tenants.connections import current_alias
from tenants.models import Role, Tenant
from tenants.rows import TenantModel
from tenants.staff import Access

M = TypeVar("M", bound=Model)
R = TypeVar("R", bound=TenantModel)
_MOST_CHOICES = 200
_MOST_NAMED = 20


class ShortPaginator(Paginator[Any]):
    """Counts no further than anyone leafs: a full count of a big table takes longer than its page."""

    most = 10_000

    @cached_property
    def count(self) -> int:
        """Return the number of rows, at most ``most``."""
        rows: Any = self.object_list
        return int(rows.order_by()[: self.most].count())


class TenantFilter(admin.SimpleListFilter):
    """Chooses the tenant; the queryset is narrowed by StaffModelAdmin.get_queryset already."""

    title = _("tenant")
    parameter_name = "tenant"

    def lookups(self, request: HttpRequest, model_admin: Any) -> Iterable[tuple[str, str]]:
        """Return the tenants that the user may look at."""
        if is_superuser(request):
            slugs = Tenant.objects.order_by("slug").values_list("slug", flat=True)[:_MOST_CHOICES]
            return [(slug, slug) for slug in slugs]
        return [(mine.slug, mine.slug) for mine in getattr(request, "staff_memberships", [])]

    def has_output(self) -> bool:
        """Tell whether there is a choice."""
        return len(self.lookup_choices) > 1

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        """Leave the rows as they are."""
        return queryset


class RowLinks(ChangeList):
    """A list whose links carry the tenant: an id is unique within its tenant only."""

    def url_for_result(self, result: Any) -> str:
        """Return the address of a row's page."""
        return f"{super().url_for_result(result)}?{urlencode({'tenant': result.tenant.slug})}"


class StaffModelAdmin(admin.ModelAdmin[M]):
    """Rights by role instead of by Django's permissions; no deleting unless a class allows it.

    A role of None lets nobody. lead_may names what a team lead may do with rows of the own team.
    """

    view_role: ClassVar[str | None] = Role.VIEWER
    add_role: ClassVar[str | None] = None
    change_role: ClassVar[str | None] = None
    delete_role: ClassVar[str | None] = None
    lead_may: ClassVar[frozenset[str]] = frozenset()

    paginator = ShortPaginator
    show_full_result_count = False
    list_per_page = 50
    list_max_show_all = 200

    def has_module_permission(self, request: HttpRequest) -> bool:
        """Show the table in the index to whoever may look at it."""
        return self.has_view_permission(request)

    def has_view_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Tell whether the user may look."""
        return self._may(request, "view", self.view_role)

    def has_add_permission(self, request: HttpRequest) -> bool:
        """Tell whether the user may add."""
        return self._may(request, "add", self.add_role)

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Tell whether the user may change."""
        return self._may(request, "change", self.change_role)

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Tell whether the user may delete."""
        return self._may(request, "delete", self.delete_role)

    def _may(self, request: HttpRequest, deed: str, role: str | None) -> bool:
        if role is None:
            return False
        if is_superuser(request):
            return True
        mine = access_of(request)
        return mine is not None and (deed in self.lead_may if mine.leads else mine.may(role))

    def get_actions(self, request: HttpRequest) -> dict[str, Any]:
        """Leave out Django's deletion of many rows at once."""
        actions: dict[str, Any] = super().get_actions(request)
        actions.pop("delete_selected", None)
        return actions

    def log_addition(self, request: HttpRequest, obj: Any, message: Any) -> Any:
        """Enter the deed in the tenant's audit."""
        self.audit(request, obj, "add")

    def log_change(self, request: HttpRequest, obj: Any, message: Any) -> Any:
        """Enter the deed in the tenant's audit, with the names of what changed."""
        names = [
            name for part in message if isinstance(part, dict) for name in part.get("changed", {}).get("fields", [])
        ]
        self.audit(request, obj, "change", {"fields": names})

    def log_deletions(self, request: HttpRequest, queryset: Any) -> Any:
        """Enter the deeds in the tenant's audit."""
        for obj in queryset:
            self.audit(request, obj, "delete")

    def audit(self, request: HttpRequest, obj: Any, deed: str, detail: dict[str, Any] | None = None) -> None:
        """Append an entry about a row of this table."""
        action = f"{self.opts.model_name}.{deed}"
        audit.record(self.tenant_row(obj), actor(request), action=action, subject=str(obj), detail=detail)

    def tenant_row(self, obj: Any) -> Tenant:
        """Return the tenant that a row belongs to."""
        tenant: Tenant = obj.tenant
        return tenant

    def note_reads(self, request: HttpRequest, rows: Iterable[Any], subject: str) -> None:
        """Enter in each tenant's audit that a superuser looked at these rows of it."""
        if is_superuser(request):
            audit.record_reads(dict.fromkeys(self.tenant_row(row).id for row in rows), actor(request), subject=subject)

    def get_object(self, request: HttpRequest, object_id: str, from_field: str | None = None) -> Any:
        """Return the row, or None; a superuser's look is audited."""
        try:
            found = super().get_object(request, object_id, from_field)
        except MultipleObjectsReturned:
            return None  # an id is unique within its tenant only; the lists' links name the tenant
        if found is not None and request.method == "GET":
            self.note_reads(request, [found], f"{self.opts.label_lower} {found}")
        return found

    def history_view(
        self, request: HttpRequest, object_id: str, extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        """Show what the audit knows of the row."""
        found = self.get_object(request, object_id)
        if found is None or not self.has_view_permission(request, found):
            raise Http404
        query = urlencode({"tenant": self.tenant_row(found).slug, "q": str(found)})
        return HttpResponseRedirect(f"{reverse('admin:tenants_auditentry_changelist')}?{query}")


class TenantForm(ModelForm[R]):
    """A form of a tenant's row: the tenant is given by the page, never by the form.

    RowAdmin.get_form sets tenant_id and mine on a class made for the request. Fields are narrowed in
    __init__, on the form's own copies: declared fields are shared by all requests.
    """

    tenant_id: UUID | None = None
    mine: Access | None = None

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if self.instance._state.adding and self.tenant_id is not None:
            self.instance.tenant_id = self.tenant_id
        for field in self.fields.values():
            rows = field.queryset if isinstance(field, forms.ModelChoiceField) else None
            if rows is not None and issubclass(rows.model, TenantModel):
                field.queryset = rows.filter(tenant_id=self.tenant_id)  # type: ignore[attr-defined]

    def _get_validation_exclusions(self) -> set[str]:
        """Keep the tenant in validation: uniques start with it."""
        return set(super()._get_validation_exclusions()) - {"tenant"}  # type: ignore[misc]


class RowAdmin(StaffModelAdmin[R]):
    """Rows that belong to a tenant."""

    form: Any = TenantForm
    list_select_related: ClassVar[Any] = ("tenant",)
    list_filter: ClassVar[Any] = (TenantFilter,)

    def get_list_display(self, request: HttpRequest) -> Any:
        """Leave the tenant out of a list that shows one tenant's rows."""
        columns = super().get_list_display(request)
        one = access_of(request) is not None or bool(asked_slug(request))
        return [column for column in columns if column != "tenant"] if one else columns

    def get_changelist(self, request: HttpRequest, **kwargs: Any) -> type[ChangeList]:
        """Return the list whose links carry the tenant."""
        return RowLinks

    def get_queryset(self, request: HttpRequest) -> QuerySet[R]:
        """Return the rows that the user may see: the chosen tenant's, all of them for a superuser who chose none."""
        rows = super().get_queryset(request)
        mine = access_of(request)
        if mine is not None:
            rows = rows.filter(tenant_id=mine.id)
            return self.of_team(rows, mine) if mine.leads else rows
        if not is_superuser(request):
            return rows.none()
        slug = asked_slug(request)
        return rows.filter(tenant_id=_tenant_id(slug)) if slug else rows

    def of_team(self, rows: QuerySet[R], mine: Access) -> QuerySet[R]:
        """Return those rows that a lead of a team may see."""
        return rows.none()

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> Any:
        """Never let the tenant be edited."""
        return ["tenant", *super().get_readonly_fields(request, obj)]

    def get_form(self, request: HttpRequest, obj: Any = None, change: bool = False, **kwargs: Any) -> Any:
        """Return a form that knows its tenant and offers rows of this tenant only."""
        form: Any = super().get_form(request, obj, change, **kwargs)
        form.tenant_id = obj.tenant_id if obj is not None else self.asked_tenant(request)
        form.mine = access_of(request)
        return form

    def asked_tenant(self, request: HttpRequest) -> UUID | None:
        """Return the tenant that a new row will belong to; None when a superuser has not said it yet."""
        mine = access_of(request)
        slug = asked_slug(request)
        return mine.id if mine is not None else _tenant_id(slug) if slug else None

    def add_view(self, request: HttpRequest, form_url: str = "", extra_context: dict[str, Any] | None = None) -> Any:
        """Ask for the tenant first."""
        if not self.has_add_permission(request):
            raise PermissionDenied
        if self.asked_tenant(request) is None:
            return self._choose_tenant(request)
        return super().add_view(request, form_url, extra_context)

    def _choose_tenant(self, request: HttpRequest) -> TemplateResponse:
        context = {
            **self.admin_site.each_context(request),
            "title": _("Which tenant?"),
            "opts": self.opts,
            "slugs": Tenant.objects.order_by("slug").values_list("slug", flat=True)[:_MOST_CHOICES],
        }
        return TemplateResponse(request, "admin/choose_tenant.html", context)

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> Any:
        """Show the list; a superuser's look is audited with each tenant on it."""
        response = super().changelist_view(request, extra_context)
        listed = (getattr(response, "context_data", None) or {}).get("cl")
        if listed is not None:
            self.note_reads(request, listed.result_list, f"{self.opts.label_lower} list")
        return response

    def save_model(self, request: HttpRequest, obj: Any, form: Any, change: bool) -> None:
        """Write what changed, and tell every process."""
        if change:
            obj.save(update_fields=self.changed_columns(form))
        else:
            obj.save(force_insert=True)
        changes.announce(obj.tenant, using=current_alias())

    def changed_columns(self, form: Any) -> list[str]:
        """Return the names of the columns that the form changed."""
        columns = {field.name for field in self.opts.concrete_fields}
        return [name for name in form.changed_data if name in columns]

    def address(self, obj: R, page: str = "change") -> str:
        """Return the address of a row's page, with its tenant."""
        name = f"admin:{self.opts.app_label}_{self.opts.model_name}_{page}"
        return f"{reverse(name, args=[quote(obj.pk)])}?{urlencode({'tenant': obj.tenant.slug})}"

    def ask_first(
        self, request: HttpRequest, rows: QuerySet[R], *, action: str, title: str, say: str, form: Any = None
    ) -> TemplateResponse:
        """Ask before an action is done to rows: show some of them, then send the same choice again, confirmed."""
        number = rows.count()
        context = {
            **self.admin_site.each_context(request),
            "title": title,
            "opts": self.opts,
            "back": request.get_full_path(),
            "names": list(rows[:_MOST_NAMED]),
            "more": max(0, number - _MOST_NAMED),
            "form": form,
            "say": say,
            "action": action,
            "chosen": request.POST.getlist(ACTION_CHECKBOX_NAME),
            "across": request.POST.get("select_across") == "1",
        }
        return TemplateResponse(request, "admin/confirm.html", context)


class ReadOnlyAdmin(RowAdmin[R]):
    """Rows that nobody writes by hand."""

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> list[str]:
        """Return every column."""
        return [field.name for field in self.opts.concrete_fields if field.name != "id"]


def actor(request: HttpRequest) -> str:
    """Return the name that the audit gives to the user."""
    return request.user.get_username()


def _tenant_id(slug: str) -> UUID:
    found = Tenant.objects.filter(slug=slug).values_list("id", flat=True).first()
    if found is None:
        raise Http404
    return found
