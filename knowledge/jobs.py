"""Ingest jobs: opening one, recording what became of each file, reporting, marking its pages."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from django.db.models import F, QuerySet
from django.utils import timezone

from knowledge import index
from knowledge.models import FileState, Job, JobFile, JobState, Page, Source, StagedChunk
from knowledge.models.pages import LONGEST_PATH
from knowledge.visibility import visible
from tenants import audit
from tenants.facts import TenantFacts
from tenants.scope import HasTenantId, tenant_scope

COUNTS = ("seen", "indexed", "unchanged", "skipped", "quarantined", "failed")
LONGEST_REASON = 500
_GOOD = (FileState.INDEXED, FileState.UNCHANGED)
ENDS = (JobState.DONE, JobState.FAILED, JobState.CANCELLED)


class UnknownJob(Exception):
    """The tenant has no job of that id."""


@dataclass(frozen=True, slots=True)
class NewFile:
    """A file or document that a job is about; state and reason when it is known beforehand."""

    path: str
    title: str = ""
    flags: Mapping[str, object] = field(default_factory=dict)
    body: bytes | None = None
    state: str = FileState.QUEUED
    reason: str = ""
    page_id: int | None = None


@dataclass(frozen=True, slots=True)
class Result:
    """What became of a queued file."""

    state: str
    reason: str = ""
    page_id: int | None = None


def open_job(tenant: HasTenantId, source: Source, *, kind: str, state: str, seen: int) -> Job:
    """Make a job over so many files."""
    started = timezone.now() if state == JobState.RUNNING else None
    with tenant_scope(tenant):
        return Job.objects.create(
            tenant_id=tenant.id, source=source, kind=kind, state=state, seen=seen, started_at=started
        )


def start_job(tenant: HasTenantId, job_id: int, *, attempts: int) -> Job | None:
    """Take a job up and return it; None when it is unknown or has ended.

    A start that finds no progress since the one before is counted; after so many of those the job has
    failed (a document that kills the worker each time, say), and None is returned.
    """
    with tenant_scope(tenant):
        rows = Job.objects.filter(tenant_id=tenant.id, id=job_id).select_for_update(of=("self",))
        job = rows.select_related("source").first()
        if job is None or job.state in ENDS:
            return None
        left = _left(job)
        starts = job.options.get("starts", 0) + 1 if job.options.get("left") == left else 1
        job.options = {**job.options, "starts": starts, "left": left}
        job.state, job.started_at = JobState.RUNNING, job.started_at or timezone.now()
        job.save(update_fields=["options", "state", "started_at"])
    if starts > attempts:
        finish_job(tenant, job, state=JobState.FAILED, reason=_given_up(job, attempts))
        return None
    return job


def failed_for_good(tenant: HasTenantId, job: Job, *, error: Exception, attempts: int) -> bool:
    """Note an error that stopped a job; ends the job, and says so, when this was its last attempt."""
    reason = f"{type(error).__name__}: {error}"[:LONGEST_REASON]
    with tenant_scope(tenant):
        job.options = {**job.options, "error": reason}
        Job.objects.filter(tenant_id=tenant.id, id=job.pk).update(options=job.options, reason=reason)
        last: bool = job.options["starts"] >= attempts and job.options["left"] == _left(job)
    if last:
        finish_job(tenant, job, state=JobState.FAILED, reason=_given_up(job, attempts))
    return last


def add_files(tenant: HasTenantId, job: Job, *, files: Sequence[NewFile], first: int = 0) -> list[int]:
    """Add files to a job, numbered from first, and return their ids; those not queued are counted at once."""
    rows = [_row(job, number, file) for number, file in enumerate(files, first)]
    with tenant_scope(tenant):
        JobFile.objects.bulk_create(rows, batch_size=200)
        _count(job, Counter(file.state for file in files if file.state != FileState.QUEUED))
    return [row.pk for row in rows]


def finish_file(tenant: HasTenantId, job: Job, *, file_id: int, result: Result) -> None:
    """Record what became of a queued file and forget its content; a file is finished once."""
    with tenant_scope(tenant):
        waiting = JobFile.objects.filter(tenant_id=tenant.id, id=file_id, state=FileState.QUEUED)
        finished = waiting.update(
            state=result.state,
            reason=result.reason,
            page_id=result.page_id,
            body=None,
            updated_at=timezone.now(),
        )
        if finished:
            _count(job, Counter([result.state]))


def finish_job(tenant: HasTenantId, job: Job, *, state: str = JobState.DONE, reason: str = "") -> None:
    """End a job. Files that still wait fail with the job's reason, and their content is forgotten."""
    now = timezone.now()
    with tenant_scope(tenant):
        waiting = JobFile.objects.filter(tenant_id=tenant.id, job=job, state=FileState.QUEUED)
        left = waiting.update(
            state=FileState.FAILED, reason=reason or "the job ended before it", body=None, updated_at=now
        )
        _count(job, Counter({FileState.FAILED: left}))
        Job.objects.filter(tenant_id=tenant.id, id=job.pk).update(state=state, reason=reason, finished_at=now)


def note_stop(tenant: HasTenantId, job: Job) -> None:
    """Record that a run was stopped on purpose: it waits again, and the next start is no further attempt."""
    with tenant_scope(tenant):
        job.options = {**job.options, "starts": job.options.get("starts", 1) - 1}
        mine = Job.objects.filter(tenant_id=tenant.id, id=job.pk, state=JobState.RUNNING)
        mine.update(options=job.options, state=JobState.QUEUED)


def job_report(tenant: TenantFacts, job_id: str, *, all_files: bool = False) -> dict[str, object] | None:
    """Return a job as callers see it, or None when it is unknown or its id is none.

    files lists what was not indexed with the reason, all_files every file. pages are those of the job that
    can be found now, visible those of them that visitors see.
    """
    with tenant_scope(tenant):
        job = Job.objects.filter(tenant_id=tenant.id, id=_number(job_id)).select_related("source").first()
        if job is None:
            return None
        files = JobFile.objects.filter(tenant_id=tenant.id, job=job).order_by("ord")
        shown = files if all_files else files.exclude(state__in=_GOOD)
        pages = Page.objects.filter(tenant_id=tenant.id, id__in=_page_ids(job)).retrievable()
        number, seen_by_visitors = pages.count(), visible(pages, tenant).count()
        listed = list(shown.values("path", "state", "reason"))
    return {
        "id": str(job.pk),
        "state": job.state,
        "progress": _progress(job),
        "counts": {name: getattr(job, name) for name in COUNTS},
        "files": listed,
        "kind": job.kind,
        "source": job.source.name,
        "reason": job.reason,
        "pages": number,
        "visible": seen_by_visitors,
        "summary": f"{number} page{'' if number == 1 else 's'}, {seen_by_visitors} visible to visitors",
        "created_at": job.created_at.isoformat(),
        "finished_at": job.finished_at.isoformat() if job.finished_at else None,
    }


def mark_user_facing(tenant: TenantFacts, *, job_id: str, actor: str) -> int:
    """Mark a job's pages as user-facing by hand; returns how many changed. Doing it again changes nothing.

    Raises UnknownJob.
    """
    with tenant_scope(tenant):
        job = Job.objects.filter(tenant_id=tenant.id, id=_number(job_id)).first()
        if job is None:
            raise UnknownJob(f"no job {job_id}")
        ids = list(_page_ids(job))
        changed = index.set_flags(tenant, page_ids=ids, by_hand=True, user_facing=True)
        if changed:
            detail = {"pages": changed}
            audit.record(tenant, actor, action="pages.user_facing", subject=f"job {job.pk}", detail=detail)
    return changed


def _number(job_id: str) -> int:
    """Return a job's id as a number; 0, which no job has, for a text that is none."""
    text = str(job_id)
    number = int(text) if text.isascii() and text.isdigit() and len(text) < 20 else 0
    return number if number < 2**63 else 0


def _page_ids(job: Job) -> QuerySet[JobFile, int]:
    files = JobFile.objects.filter(tenant_id=job.tenant_id, job=job, page__isnull=False)
    return files.values_list("page_id", flat=True)


def _progress(job: Job) -> float:
    if job.state == JobState.DONE:
        return 1.0
    finished = sum(getattr(job, name) for name in COUNTS[1:])
    return round(min(1.0, finished / job.seen), 3) if job.seen else 0.0


def _left(job: Job) -> list[int]:
    """Return what is still to be done, in figures that any progress changes: waiting files, staged chunks."""
    waiting = JobFile.objects.filter(tenant_id=job.tenant_id, job=job, state=FileState.QUEUED)
    staged = StagedChunk.objects.filter(tenant_id=job.tenant_id, source_id=job.source_id)
    return [waiting.count(), staged.count()]


def _given_up(job: Job, attempts: int) -> str:
    why = job.options.get("error", "the worker ended each time")
    return f"given up after {attempts} attempts: {why}"


def _row(job: Job, number: int, file: NewFile) -> JobFile:
    return JobFile(
        tenant_id=job.tenant_id,
        job=job,
        ord=number,
        path=file.path[:LONGEST_PATH],
        title=file.title,
        flags=dict(file.flags),
        body=file.body,
        state=file.state,
        reason=file.reason,
        page_id=file.page_id,
    )


def _count(job: Job, states: Mapping[str, int]) -> None:
    """Move a job's counters; F() because several processes may."""
    moves: dict[str, Any] = {state: F(state) + number for state, number in states.items() if number}
    if moves:
        Job.objects.filter(tenant_id=job.tenant_id, id=job.pk).update(**moves)
