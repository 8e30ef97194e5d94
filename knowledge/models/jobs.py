"""Ingest jobs: what was to be done, how far it is, and why a file was not indexed."""

from __future__ import annotations

from typing import ClassVar

from django.db import models
from django.db.models import Q

from knowledge.models.pages import LONGEST_PATH, Page, Source
from tenants.rows import TenantForeignKey, TenantModel


class JobKind(models.TextChoices):
    """Who asked for the work."""

    API = "api", "API"
    UPLOAD = "upload", "upload"
    FOLDER = "folder", "folder"
    SYNC = "sync", "source sync"


def job_kinds() -> list[tuple[str, str]]:
    """Return the kinds of jobs; a new one needs no migration."""
    return list(JobKind.choices)


class JobState(models.TextChoices):
    """How far a job is; the last three are ends."""

    QUEUED = "queued", "queued"
    RUNNING = "running", "running"
    DONE = "done", "done"
    FAILED = "failed", "failed"
    CANCELLED = "cancelled", "cancelled"


class FileState(models.TextChoices):
    """What became of a file."""

    QUEUED = "queued", "queued"
    INDEXED = "indexed", "indexed"
    UNCHANGED = "unchanged", "unchanged"
    SKIPPED = "skipped", "skipped"
    QUARANTINED = "quarantined", "quarantined"
    FAILED = "failed", "failed"


class Job(TenantModel):
    """A piece of ingest work. The counts are files, moved by F() only."""

    source = TenantForeignKey(Source, on_delete=models.CASCADE, related_name="jobs")
    kind = models.CharField(max_length=10, choices=job_kinds, default=JobKind.API)
    state = models.CharField(max_length=10, choices=JobState.choices, default=JobState.QUEUED)
    reason = models.TextField(blank=True, help_text="why the whole job failed")
    options = models.JSONField(default=dict, blank=True)

    seen = models.PositiveIntegerField(default=0)
    indexed = models.PositiveIntegerField(default=0)
    unchanged = models.PositiveIntegerField(default=0)
    skipped = models.PositiveIntegerField(default=0)
    quarantined = models.PositiveIntegerField(default=0)
    failed = models.PositiveIntegerField(default=0)

    created_at = models.DateTimeField(auto_now_add=True)
    started_at = models.DateTimeField(null=True, blank=True)
    finished_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        # The jobs page lists a tenant's newest.
        indexes: ClassVar = [models.Index(fields=["tenant", "-created_at"], name="job_newest")]

    def __str__(self) -> str:
        return f"{self.kind} job {self.pk}, {self.state}"


class JobFile(TenantModel):
    """A file or document of a job. body is what was uploaded, cleared when the file is finished."""

    job = TenantForeignKey(Job, on_delete=models.CASCADE, related_name="files")
    ord = models.PositiveIntegerField()
    path = models.CharField(max_length=LONGEST_PATH)
    title = models.CharField(max_length=500, blank=True)
    flags = models.JSONField(default=dict, blank=True)
    body = models.BinaryField(null=True)
    state = models.CharField(max_length=12, choices=FileState.choices, default=FileState.QUEUED)
    reason = models.TextField(blank=True)
    page = TenantForeignKey(Page, on_delete=models.SET_NULL, null=True, related_name="+")
    updated_at = models.DateTimeField(auto_now=True)

    class Meta:
        constraints: ClassVar = [
            # The worker takes a job's files in order; reports list them so.
            models.UniqueConstraint(fields=["tenant", "job", "ord"], name="job_file_order_once"),
            models.CheckConstraint(condition=Q(body=None) | Q(state="queued"), name="job_file_body_cleared"),
        ]

    def __str__(self) -> str:
        return self.path
