"""Documents handed over by a request: kept in the database at once, indexed by a worker."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import timedelta

from django.conf import settings

from knowledge import index, jobs
from knowledge.ingest.exclusive import held
from knowledge.ingest.flags import NONE, Flags
from knowledge.ingest.indexing import Indexer
from knowledge.ingest.pipeline import Interrupted
from knowledge.ingest.reading import LONGEST_TITLE, Asked, refusal
from knowledge.ingest.sources import source_named
from knowledge.models import FileState, Job, JobFile, JobKind, JobState, SourceKind
from knowledge.models.pages import LONGEST_PATH
from knowledge.queue import enqueue_ingest
from knowledge.walking import clean
from tenants.facts import TenantFacts
from tenants.scope import tenant_scope

DEFAULT_SOURCE = "api"
ATTEMPTS = 3  # starts of a job that got no further than the one before


_STAGED_FOR = timedelta(days=2)  # staged chunks of a page that nobody published are given up after this


class JobIsRunning(Exception):
    """Another process is working on this job."""


@dataclass(frozen=True, slots=True)
class NewDocument:
    """A document to be indexed. Characters are text whatever the path's name; bytes go by its extension."""

    path: str
    content: bytes | str = field(repr=False)
    title: str = ""
    flags: Flags = NONE


def submit_documents(
    tenant: TenantFacts, documents: Sequence[NewDocument], *, source: str = DEFAULT_SOURCE, kind: str = JobKind.API
) -> Job:
    """Keep documents for the worker and return the job, committed together with its place in the queue.

    A document that cannot be read by its name or size is recorded with the reason and not kept. Raises
    BadSource and BadFlag, and then keeps nothing.
    """
    files = [_new_file(document) for document in documents]
    with tenant_scope(tenant):
        place = source_named(tenant, source, kind=SourceKind.UPLOAD if kind == JobKind.UPLOAD else SourceKind.API)
        job = jobs.open_job(tenant, place, kind=kind, state=JobState.QUEUED, seen=len(files))
        jobs.add_files(tenant, job, files=files)
        enqueue_ingest(tenant, job_id=job.pk, source_id=place.pk)
    return job


def run_documents(tenant: TenantFacts, job_id: int, *, must_stop: Callable[[], bool] = lambda: False) -> None:
    """Index what is left of a job, from where an earlier run ended.

    Raises JobIsRunning when another process is at it, and Interrupted when told to stop. Any other error
    is noted and raised, for the queue to try again; after ATTEMPTS starts that got no further than the
    one before, the job has failed instead.
    """
    with held(f"job {tenant.id} {job_id}") as mine:
        if not mine:
            raise JobIsRunning(f"job {job_id} is running")
        job = jobs.start_job(tenant, job_id, attempts=ATTEMPTS)
        if job is None:
            return
        try:
            _index_files(tenant, job, must_stop)
        except Interrupted:
            jobs.note_stop(tenant, job)
            raise
        except Exception as error:
            if jobs.failed_for_good(tenant, job, error=error, attempts=ATTEMPTS):
                return
            raise
        jobs.finish_job(tenant, job)
    index.refreeze(tenant)
    index.clear_staged(tenant, older_than=_STAGED_FOR)


def _index_files(tenant: TenantFacts, job: Job, must_stop: Callable[[], bool]) -> None:
    def finished(file_id: int, result: jobs.Result) -> None:
        jobs.finish_file(tenant, job, file_id=file_id, result=result)

    indexer = Indexer(tenant, source=job.source, finished=finished, must_stop=must_stop)
    for file in _waiting(tenant, job):
        asked = Asked(title=file.title, flags=file.flags)
        indexer.take(file.path, bytes(file.body or b""), asked=asked, file_id=file.pk)
    indexer.flush()


def _waiting(tenant: TenantFacts, job: Job) -> Iterator[JobFile]:
    """Yield the job's queued files in order, one at a time: together they may be large."""
    last = -1
    while True:
        with tenant_scope(tenant):
            files = JobFile.objects.filter(tenant_id=tenant.id, job=job, state=FileState.QUEUED, ord__gt=last)
            file = files.order_by("ord").first()
        if file is None:
            return
        last = file.ord
        yield file


def _new_file(document: NewDocument) -> jobs.NewFile:
    is_text = isinstance(document.content, str)
    content = clean(document.content).encode() if isinstance(document.content, str) else document.content
    path = clean(document.path)
    left = refusal(path, len(content), limit=settings.KB_MAX_FILE_BYTES, is_text=is_text)
    return jobs.NewFile(
        path=path[:LONGEST_PATH],
        title=clean(document.title).strip()[:LONGEST_TITLE],
        flags=document.flags.checked().given(),
        body=None if left else content,
        state=left.state if left else FileState.QUEUED,
        reason=left.reason if left else "",
    )
