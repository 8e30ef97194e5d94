"""The admin site: every view of it runs as the database role, and in the tenant, that its user is entitled to.

A superuser's view runs as kb_staff and sees every tenant; what it showed of a tenant's data is entered in
that tenant's audit. A member's view runs as kb_app inside the scope of one tenant, which the database
enforces. A staff user without a membership sees empty pages.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any
from urllib.parse import parse_qs

from django.contrib.admin import AdminSite
from django.db.models import QuerySet
from django.http import Http404, HttpRequest, HttpResponseBase
from django.template.response import SimpleTemplateResponse, TemplateResponse
from django.utils.translation import gettext_lazy as _

from tenants import staff
from tenants.connections import STAFF, connected_as
from tenants.models import Tenant
from tenants.scope import tenant_scope

_SESSION_NAME = "staff_tenant"
_MOST_LISTED = 200


def access_of(request: HttpRequest) -> staff.Access | None:
    """Return the member's way into the tenant of this request; None for superusers and people without a tenant."""
    found: staff.Access | None = getattr(request, "staff_access", None)
    return found


def asked_slug(request: HttpRequest) -> str:
    """Return the tenant that the address asks for, itself or in the filters of the list it came from."""
    slug = request.GET.get("tenant", "")
    if not slug and (filters := request.GET.get("_changelist_filters")):
        slug = parse_qs(filters).get("tenant", [""])[0]
    return slug.replace("\0", "")  # which no query takes


def is_superuser(request: HttpRequest) -> bool:
    """Tell whether the request is a superuser's."""
    return bool(request.user.is_active and request.user.is_staff and request.user.is_superuser)


class StaffSite(AdminSite):
    """Django's admin with the rules of tenants."""

    site_header = _("kbplatform")
    site_title = _("kbplatform")
    index_title = _("Records")
    site_url = "/kb/"

    def admin_view(self, view: Callable[..., Any], cacheable: bool = False) -> Any:
        """Run a view, and the rendering of what it answers, in its user's place."""
        guarded = super().admin_view(view, cacheable)

        @wraps(view)
        def placed(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
            with _place(request, enter=self.has_permission(request)):
                response = guarded(request, *args, **kwargs)
                return response.render() if isinstance(response, SimpleTemplateResponse) else response

        return placed

    def each_context(self, request: HttpRequest) -> dict[str, Any]:
        """Add the tenants that the user may choose from, and the chosen one."""
        mine = getattr(request, "staff_memberships", [])
        return super().each_context(request) | {"staff_access": access_of(request), "staff_memberships": mine}

    def index(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> TemplateResponse:
        """Show the tables and the way to each tenant's own page."""
        return super().index(request, {"tenants": _listed(request), **(extra_context or {})})


def _listed(request: HttpRequest) -> list[str]:
    if is_superuser(request):
        slugs: QuerySet[Tenant, str] = Tenant.objects.order_by("slug").values_list("slug", flat=True)
        return list(slugs[:_MOST_LISTED])
    return [mine.slug for mine in getattr(request, "staff_memberships", [])]


@contextmanager
def _place(request: HttpRequest, *, enter: bool) -> Iterator[None]:
    if enter and is_superuser(request):
        with connected_as(STAFF):
            yield
        return
    chosen = _choose(request) if enter else None
    if chosen is None:
        yield
        return
    with tenant_scope(chosen):
        yield


def _choose(request: HttpRequest) -> staff.Access | None:
    """Return the member's tenant: the one asked for, else the one of last time, else the first."""
    mine = staff.memberships(request.user)
    by_slug = {access.slug: access for access in mine}
    asked = asked_slug(request)
    if asked and asked not in by_slug:
        raise Http404
    chosen = by_slug.get(asked) or by_slug.get(request.session.get(_SESSION_NAME, "")) or next(iter(mine), None)
    if chosen is not None and request.session.get(_SESSION_NAME) != chosen.slug:
        request.session[_SESSION_NAME] = chosen.slug
    request.staff_access, request.staff_memberships = chosen, mine  # type: ignore[attr-defined]
    return chosen
