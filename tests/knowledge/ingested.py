"""What tests of ingest do and ask, and the programs they start."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from knowledge.ingest import Flags, GivenChunk, NewDocument, ingest_chunks, run_documents, submit_documents
from knowledge.jobs import job_report
from knowledge.models import Chunk, Corpus, Job, Page, StagedChunk
from knowledge.search import search
from tenants.facts import TenantFacts
from tenants.scope import tenant_scope

PROJECT = Path(__file__).resolve().parents[2]


def holders(tenant: TenantFacts, word: str) -> list[str]:
    """Return the paths of the hits whose text holds the word."""
    return sorted(hit.path for hit in search(tenant, word, top_k=20).hits if word in hit.text)


def version(tenant: TenantFacts) -> int:
    """Return the corpus version."""
    with tenant_scope(tenant):
        return Corpus.objects.filter(tenant_id=tenant.id).values_list("version", flat=True).first() or 0


def page(tenant: TenantFacts, path: str, *, source: str = "api") -> Page:
    """Return a page."""
    with tenant_scope(tenant):
        return Page.objects.get(tenant_id=tenant.id, path=path, source__name=source)


def paths(tenant: TenantFacts) -> list[str]:
    """Return the paths of all pages."""
    with tenant_scope(tenant):
        return sorted(Page.objects.filter(tenant_id=tenant.id).values_list("path", flat=True))


def chunks(tenant: TenantFacts, path: str, *, source: str = "api") -> list[Chunk]:
    """Return a page's chunks in order."""
    with tenant_scope(tenant):
        mine = Chunk.objects.filter(tenant_id=tenant.id, page__path=path, page__source__name=source)
        return list(mine.order_by("ord"))


def staged(tenant: TenantFacts) -> set[int]:
    """Return the ids of all staged chunks."""
    with tenant_scope(tenant):
        return set(StagedChunk.objects.filter(tenant_id=tenant.id).values_list("id", flat=True))


def job_of(tenant: TenantFacts, job_id: int) -> Job:
    """Return a job as it is now."""
    with tenant_scope(tenant):
        return Job.objects.get(tenant_id=tenant.id, id=job_id)


def given(path: str, *contents: str, first: int = 0) -> list[GivenChunk]:
    """Return the chunks of a page with indexes from `first`."""
    return [GivenChunk(content, path, number) for number, content in enumerate(contents, first)]


def store(tenant: TenantFacts, path: str, *contents: str, **options: Any) -> None:
    """Ingest a page made of chunks."""
    ingest_chunks(tenant, given(path, *contents), **options)


def upload(
    tenant: TenantFacts, path: str, content: bytes | str, *, source: str = "api", title: str = "", **flags: Any
) -> dict[str, Any]:
    """Submit a document, do the worker's work, and return the job's report with all files."""
    job = submit_documents(tenant, [NewDocument(path, content, title, Flags(**flags))], source=source)
    run_documents(tenant, job.pk)
    return report_of(tenant, job.pk)


def report_of(tenant: TenantFacts, job_id: int, *, all_files: bool = True) -> dict[str, Any]:
    """Return a job's report."""
    report = job_report(tenant, str(job_id), all_files=all_files)
    assert report is not None
    return report


def outcome(report: dict[str, Any], path: str) -> tuple[str, str]:
    """Return the state and the reason of a file in a report."""
    return next((file["state"], file["reason"]) for file in report["files"] if file["path"] == path)


def counts(report: dict[str, Any]) -> dict[str, int]:
    """Return the counts of a report that are not 0."""
    return {name: number for name, number in report["counts"].items() if number}


def long_page(*, sections: int, word: str = "harrow") -> str:
    """Return a Markdown page of about one chunk a section, each with a word of its own."""
    filler = "The harrow lies in the long field and waits for spring. " * 12
    return "".join(f"## Section {number}\n\n{word}{number}q {filler}\n\n" for number in range(sections))


def manage(*arguments: object, **environment: str) -> subprocess.Popen[str]:
    """Start a management command as a program of its own, in the test's database."""
    return subprocess.Popen(
        [sys.executable, str(PROJECT / "manage.py"), *map(str, arguments)],
        cwd=PROJECT,
        env={**os.environ, **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
