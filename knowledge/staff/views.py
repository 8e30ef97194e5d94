"""The staff's page of a tenant: counts, upload, progress of jobs.

Every view begins with who may enter. What it does runs as kb_app inside the tenant's scope, a superuser's
too; a superuser's look is entered in the tenant's audit.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect, JsonResponse
from django.shortcuts import redirect, render, resolve_url
from django.urls import reverse
from django.utils.http import urlencode
from django.utils.translation import gettext
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_POST, require_safe
from django_htmx.http import HttpResponseClientRedirect
from django_htmx.middleware import HtmxDetails

from knowledge.ingest import BadSource
from knowledge.ingest.uploads import NoSuchUpload, NothingUploaded, add_part, close_upload, open_upload
from knowledge.jobs import UnknownJob, mark_user_facing
from knowledge.staff.forms import PartForm, UploadForm
from knowledge.staff.overview import embedding_host, job_view, overview, upload_rules
from knowledge.staff.texts import script_texts
from tenants import audit, staff
from tenants.facts import TenantFacts
from tenants.models import Role, User
from tenants.registry import read_facts, tenant_ids
from tenants.scope import tenant_scope

_PART = 20  # files of a plain form that are kept in one transaction


class StaffRequest(HttpRequest):
    """A request of somebody who is signed in as staff."""

    user: User
    htmx: HtmxDetails


View = Callable[..., HttpResponse]


def signed_in(view: View) -> View:
    """Send whoever is not signed in as staff to sign in, from within a part of a page too."""

    @never_cache
    @wraps(view)
    def checked(request: StaffRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        if request.user.is_active and request.user.is_staff:
            return view(request, *args, **kwargs)
        if _wants_json(request):
            return JsonResponse({"error": gettext("You are signed out. Reload the page and sign in.")}, status=401)
        page = request.htmx.current_url_abs_path if request.htmx else request.get_full_path()
        address = f"{resolve_url('admin:login')}?{urlencode({'next': page or reverse('kb:tenants')})}"
        return HttpResponseClientRedirect(address) if request.htmx else HttpResponseRedirect(address)

    return checked


def entered(request: StaffRequest, slug: str, *, role: str) -> tuple[staff.Access, TenantFacts]:
    """Return the user's access and the tenant; a tenant that is not theirs answers as an unknown one."""
    access = staff.access(request.user, slug)
    if access is None:
        raise Http404
    if not access.may(role):
        raise PermissionDenied
    return access, read_facts(access.id)


@require_safe
@signed_in
def tenants(request: StaffRequest) -> HttpResponse:
    """List the tenants that the user may enter; go on to the only one."""
    mine = tenant_ids() if request.user.is_superuser else [access.slug for access in staff.memberships(request.user)]
    slugs = sorted(mine)
    if len(slugs) == 1:
        return redirect("kb:tenant", slugs[0])
    return render(request, "knowledge/tenants.html", {"slugs": slugs})


@require_safe
@signed_in
def tenant(request: StaffRequest, slug: str) -> HttpResponse:
    """Show a tenant's counts, the upload form and its jobs; to HTMX the counts and the list of jobs only."""
    access, facts = entered(request, slug, role=Role.VIEWER)
    if request.htmx:
        return render(request, "knowledge/_overview.html", {"tenant": facts, "overview": overview(facts)})
    _note_look(request, access, facts)
    return _tenant_page(request, access, facts, UploadForm())


@require_safe
@signed_in
def job(request: StaffRequest, slug: str, job_id: int) -> HttpResponse:
    """Show how far a job is, and why files were not indexed; HTMX asks for it again until it has ended."""
    access, facts = entered(request, slug, role=Role.VIEWER)
    if not request.htmx:
        _note_look(request, access, facts)
    return _job_page(request, access, facts, job_id)


@require_POST
@signed_in
def upload(request: StaffRequest, slug: str) -> HttpResponse:
    """Take an upload from a plain form, or a part of one from the page's script, which asks for JSON."""
    access, facts = entered(request, slug, role=Role.EDITOR)
    if _wants_json(request):
        return _take_part(request, facts)
    form = UploadForm(request.POST, request.FILES)
    if form.is_valid():
        try:
            return redirect("kb:job", slug, _take_all(request, facts, form))
        except (BadSource, NothingUploaded) as error:
            form.add_error(None, str(error))
    return _tenant_page(request, access, facts, form, status=400)


@require_POST
@signed_in
def finish(request: StaffRequest, slug: str, job_id: int) -> HttpResponse:
    """Index what arrived of an upload that broke off."""
    access, facts = entered(request, slug, role=Role.EDITOR)
    try:
        close_upload(facts, job_id, actor=request.user.get_username())
    except (NoSuchUpload, NothingUploaded) as error:
        raise Http404 from error
    return _job_page(request, access, facts, job_id) if request.htmx else redirect("kb:job", slug, job_id)


@require_POST
@signed_in
def show_to_visitors(request: StaffRequest, slug: str, job_id: int) -> HttpResponse:
    """Mark a job's pages as user-facing."""
    access, facts = entered(request, slug, role=Role.EDITOR)
    try:
        mark_user_facing(facts, job_id=str(job_id), actor=request.user.get_username())
    except UnknownJob as error:
        raise Http404 from error
    return _job_page(request, access, facts, job_id) if request.htmx else redirect("kb:job", slug, job_id)


def _wants_json(request: HttpRequest) -> bool:
    return request.headers.get("Accept") == "application/json"


def _take_all(request: StaffRequest, facts: TenantFacts, form: UploadForm) -> int:
    files = form.files_in_order()
    if not files:
        raise NothingUploaded(gettext("Choose at least one file."))
    opened = open_upload(facts, source=form.cleaned_data["source"])
    for first in range(0, len(files), _PART):
        add_part(facts, opened, files[first : first + _PART], first=first)
    close_upload(facts, opened, actor=request.user.get_username())
    return opened


def _take_part(request: StaffRequest, facts: TenantFacts) -> HttpResponse:
    form = PartForm(request.POST, request.FILES)
    if not form.is_valid():
        return JsonResponse({"error": _said(form)}, status=400)
    asked = form.cleaned_data
    try:
        opened = asked["upload"] or open_upload(facts, source=asked["source"])
        if files := form.files_in_order():
            add_part(facts, opened, files, first=asked["first"])
        if asked["last"]:
            close_upload(facts, opened, actor=request.user.get_username())
    except (BadSource, NoSuchUpload, NothingUploaded) as error:
        return JsonResponse({"error": str(error)}, status=400)
    return JsonResponse({"upload": str(opened), "page": reverse("kb:job", args=[facts.slug, opened])})


def _said(form: UploadForm) -> str:
    return " ".join(f"{name}: {' '.join(map(str, errors))}" for name, errors in form.errors.items())


def _tenant_page(
    request: StaffRequest, access: staff.Access, facts: TenantFacts, form: UploadForm, *, status: int = 200
) -> HttpResponse:
    shown = overview(facts)
    context = {
        "tenant": facts,
        "overview": shown,
        "form": form,
        "may_edit": access.may(Role.EDITOR),
        "embedding_host": embedding_host(),
        "rules": upload_rules(),
        "texts": script_texts(),
        "newest": job_view(facts, str(shown.jobs[0].pk)) if shown.jobs else None,
    }
    return render(request, "knowledge/tenant.html", context, status=status)


def _job_page(request: StaffRequest, access: staff.Access, facts: TenantFacts, job_id: int) -> HttpResponse:
    shown = job_view(facts, str(job_id))
    if shown is None:
        raise Http404
    context = {"tenant": facts, "job": shown, "may_edit": access.may(Role.EDITOR)}
    response = render(request, "knowledge/_job.html" if request.htmx else "knowledge/job.html", context)
    if request.htmx and shown.has_ended:
        response["HX-Trigger-After-Settle"] = "kb-counts-moved"
    return response


def _note_look(request: StaffRequest, access: staff.Access, facts: TenantFacts) -> None:
    """Enter a superuser's look in the tenant's audit."""
    if access.role == staff.SUPERUSER:
        with tenant_scope(facts):
            audit.record_reads([facts.id], request.user.get_username(), subject=request.path)
