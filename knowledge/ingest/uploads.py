"""An upload that arrives in parts: its files are kept as they come, and queued together when all are there.

A part may be sent again, because a browser cannot know whether a request that broke off was taken.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from django.conf import settings
from django.db.models import F

from knowledge import jobs
from knowledge.ingest.reading import refusal
from knowledge.ingest.sources import source_named
from knowledge.models import FileState, Job, JobFile, JobKind, JobState, SourceKind
from knowledge.queue import enqueue_ingest
from knowledge.walking import DEFAULT_RULES, clean
from tenants import audit
from tenants.scope import HasTenantId, tenant_scope

DEFAULT_SOURCE = "upload"
_OPEN = "open"  # the option of a job that still takes files


class NoSuchUpload(Exception):
    """The tenant has no such upload, or it takes no more files."""


class NothingUploaded(Exception):
    """An upload was to be queued without a file in it: choose at least one."""


@dataclass(frozen=True, slots=True)
class UploadedFile:
    """A file as it came: its path relative to the chosen folder, its size in bytes, and how to read it."""

    path: str
    size: int
    read: Callable[[], bytes]


def open_upload(tenant: HasTenantId, *, source: str) -> int:
    """Begin an upload into a source (made when missing) and return its job's id. Raises BadSource."""
    with tenant_scope(tenant):
        place = source_named(tenant, source, kind=SourceKind.UPLOAD)
        job = jobs.open_job(tenant, place, kind=JobKind.UPLOAD, state=JobState.QUEUED, seen=0)
        Job.objects.filter(tenant_id=tenant.id, id=job.pk).update(options={_OPEN: True})
    return job.pk


def add_part(tenant: HasTenantId, upload: int, files: Sequence[UploadedFile], *, first: int) -> None:
    """Keep files as numbers first, first + 1, … of the upload; a part that is there already changes nothing.

    A file that cannot be read by its name or size is recorded with the reason and not kept. Raises
    NoSuchUpload.
    """
    rows = [_row(file) for file in files]
    with tenant_scope(tenant):
        job = _locked(tenant, upload)
        if JobFile.objects.filter(tenant_id=tenant.id, job=job, ord=first).exists():
            return
        if not takes_files(job):
            raise NoSuchUpload(f"upload {upload} takes no more files")
        jobs.add_files(tenant, job, files=rows, first=first)
        Job.objects.filter(tenant_id=tenant.id, id=job.pk).update(seen=F("seen") + len(rows))


def close_upload(tenant: HasTenantId, upload: int, *, actor: str) -> None:
    """Queue the upload for the worker, once. Raises NoSuchUpload and NothingUploaded."""
    with tenant_scope(tenant):
        job = _locked(tenant, upload)
        if not takes_files(job):
            return
        if job.seen == 0:
            raise NothingUploaded("there is no file in this upload")
        Job.objects.filter(tenant_id=tenant.id, id=job.pk).update(options={})
        enqueue_ingest(tenant, job_id=job.pk, source_id=job.source_id)
        detail = {"source": job.source.name, "files": job.seen}
        audit.record(tenant, actor, action="upload", subject=f"job {job.pk}", detail=detail)


def takes_files(job: Job) -> bool:
    """Tell whether a job is an upload that is not complete yet."""
    return job.state == JobState.QUEUED and bool(job.options.get(_OPEN))


def _locked(tenant: HasTenantId, upload: int) -> Job:
    rows = Job.objects.filter(tenant_id=tenant.id, id=upload, kind=JobKind.UPLOAD).select_for_update(of=("self",))
    job = rows.select_related("source").first()
    if job is None:
        raise NoSuchUpload(f"no upload {upload}")
    return job


def _row(file: UploadedFile) -> jobs.NewFile:
    path = clean(file.path)
    if reason := _left_out(path):
        return jobs.NewFile(path=path, state=FileState.SKIPPED, reason=reason)
    left = refusal(path, file.size, limit=settings.KB_MAX_FILE_BYTES, is_text=False)
    if left is not None:
        return jobs.NewFile(path=path, state=left.state, reason=left.reason)
    return jobs.NewFile(path=path, body=file.read())


def _left_out(path: str) -> str:
    """Say by which rule of a folder walk a path is left out; a browser is not believed to have looked."""
    *folders, name = path.split("/")
    if ".." in folders or path.startswith("/"):
        return "the path leads out of the folder"
    for folder in folders:
        if folder in DEFAULT_RULES.skip_folders:
            return f"folders named {folder} are skipped"
    return f"files named {name} are skipped" if name in DEFAULT_RULES.skip_files else ""
