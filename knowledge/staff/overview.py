"""What the staff's page of a tenant shows: counts, the newest jobs, and one job in detail."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from django.conf import settings

from knowledge.ingest.uploads import takes_files
from knowledge.jobs import ENDS, job_report
from knowledge.models import FileState, Job, Page
from knowledge.search import Stats, stats
from knowledge.visibility import visible
from knowledge.walking import DEFAULT_RULES
from tenants.facts import TenantFacts
from tenants.scope import tenant_scope

_NEWEST = 10
_MOST_FILES = 200


@dataclass(frozen=True, slots=True)
class Overview:
    """A tenant's counts; visible is the number of pages that visitors see. The newest job comes first."""

    stats: Stats
    visible: int
    jobs: Sequence[Job]


@dataclass(frozen=True, slots=True)
class JobView:
    """A job as its page shows it; files are the first of those that were not indexed."""

    report: dict[str, Any]
    files: Sequence[dict[str, str]]
    more_files: int
    is_open: bool
    has_ended: bool
    percent: int


def overview(tenant: TenantFacts) -> Overview:
    """Return a tenant's counts and newest jobs."""
    with tenant_scope(tenant):
        pages = Page.objects.filter(tenant_id=tenant.id).retrievable()
        jobs = Job.objects.filter(tenant_id=tenant.id).select_related("source").order_by("-created_at")
        return Overview(stats(tenant), visible(pages, tenant).count(), list(jobs[:_NEWEST]))


def job_view(tenant: TenantFacts, job_id: str) -> JobView | None:
    """Return a job, or None when the tenant has none of that id."""
    with tenant_scope(tenant):
        report: dict[str, Any] | None = job_report(tenant, job_id)
        if report is None:
            return None
        job = Job.objects.get(tenant_id=tenant.id, id=int(report["id"]))
    left = [file for file in report["files"] if file["state"] != FileState.QUEUED]
    return JobView(
        report=report,
        files=left[:_MOST_FILES],
        more_files=max(0, len(left) - _MOST_FILES),
        is_open=takes_files(job),
        has_ended=job.state in ENDS,
        percent=round(100 * report["progress"]),
    )


def embedding_host() -> str:
    """Return the host that texts are sent to for embedding, "" when they stay on this server."""
    if settings.KB_EMBEDDING_PROVIDER != "openai":
        return ""
    return urlsplit(settings.KB_EMBEDDING_BASE_URL).hostname or settings.KB_EMBEDDING_BASE_URL


def upload_rules() -> dict[str, Any]:
    """Return what a browser leaves out before it sends anything: the rules of a folder walk, as data."""
    return {
        "folders": sorted(DEFAULT_RULES.skip_folders),
        "files": sorted(DEFAULT_RULES.skip_files),
        "extensions": sorted(DEFAULT_RULES.extensions),
        "names": sorted(DEFAULT_RULES.names),
        "maxBytes": settings.KB_MAX_FILE_BYTES,
    }
