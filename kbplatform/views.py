"""The start page: what this is, and for signed-in staff what their tenants hold, with a search box."""

from __future__ import annotations

from dataclasses import dataclass

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from knowledge.search import Found, Stats, search, stats
from tenants import staff
from tenants.models import User
from tenants.registry import UnknownTenant, read_facts, tenant_ids

LONGEST_QUESTION = 1_000
_MOST_TENANTS = 50


@dataclass(frozen=True, slots=True)
class Held:
    """What a tenant of the person's holds."""

    slug: str
    stats: Stats


@require_safe
def start(request: HttpRequest) -> HttpResponse:
    """Show the start page; the same for everybody who isn't signed in as staff."""
    if request.method == "HEAD":
        return HttpResponse(b"")
    mine = _tenants(request)
    question = request.GET.get("q", "").replace("\0", " ").strip()[:LONGEST_QUESTION]
    asked = next((access for access in mine if access.slug == request.GET.get("tenant")), None)
    context = {
        "held": [Held(access.slug, stats(access)) for access in mine],
        "question": question,
        "chosen": asked.slug if asked else "",
        "found": _found(asked, question) if asked and question else None,
    }
    return render(request, "start.html", context)


def _tenants(request: HttpRequest) -> list[staff.Access]:
    """Return the tenants whose pages the person may read."""
    user = request.user
    if not isinstance(user, User) or not (user.is_active and user.is_staff):
        return []
    if user.is_superuser:
        found = [staff.Access(number, slug, staff.SUPERUSER) for slug, number in sorted(tenant_ids().items())]
    else:
        found = [access for access in staff.memberships(user) if not access.leads]
    return found[:_MOST_TENANTS]


def _found(access: staff.Access, question: str) -> Found | None:
    try:
        return search(read_facts(access.id), question, embed_timeout=5)
    except UnknownTenant:  # erased meanwhile
        return None
