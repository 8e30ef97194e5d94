"""Folders of the machine the command runs on: indexed in the process that asks, by the same engine as uploads."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from django.conf import settings
from django.utils import timezone

from knowledge import index, jobs
from knowledge.embedding import EmbeddingFailed, ModelUnusable
from knowledge.ingest.exclusive import held
from knowledge.ingest.flags import NONE, Flags
from knowledge.ingest.indexing import Indexer
from knowledge.ingest.listing import Listing, list_files
from knowledge.ingest.reading import Asked
from knowledge.ingest.sources import WIKI, BadSource, known_source, source_named
from knowledge.models import FileState, Job, JobKind, JobState, Page, Source, SourceKind
from knowledge.walking import CannotRead, Found, read
from tenants.facts import TenantFacts
from tenants.scope import tenant_scope

_ROOTS = "roots"  # in a source's settings: the folders it was last filled from


class SourceIsBusy(Exception):
    """Another ingest of this source is running; wait for it to end."""


class OtherFolder(Exception):
    """The source that a folder's name stands for was filled from another folder: name a source."""


def ingest_folder(
    tenant: TenantFacts,
    roots: Sequence[Path],
    *,
    source: str | None = None,
    flags: Flags = NONE,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> Job:
    """Bring a source to what lies in folders and files now, and return the finished job.

    Paths are relative to the given folder. What is unchanged is left alone; pages whose files are no
    longer there are deleted, unless the listing is not whole: a file was named instead of a folder, or
    something could not be read. Without a source its name is the folder's, and then it must have been
    filled from the same folders before. Raises FolderNotFound, SourceIsBusy, OtherFolder, BadSource and
    BadFlag before anything changes. ``progress(done, total)`` is called for each file.
    """
    general = flags.checked().given()
    listing = list_files(roots, largest=settings.KB_MAX_FILE_BYTES)
    place = _source(tenant, source, listing)
    with held(f"folder {tenant.id} {place.pk}") as mine:
        if not mine:
            raise SourceIsBusy(f"another ingest of source {place.name} is running; wait for it to end")
        _end_interrupted(tenant, place)
        job = _index(tenant, place, listing, flags=general, progress=progress)
    index.refreeze(tenant)
    with tenant_scope(tenant):
        return Job.objects.select_related("source").get(tenant_id=tenant.id, id=job.pk)


def _source(tenant: TenantFacts, name: str | None, listing: Listing) -> Source:
    wanted = listing.name if name is None else name.strip()
    if wanted == WIKI:
        raise BadSource("source: wiki holds the pages written by hand; say --source with another name")
    known = known_source(tenant, wanted)
    if name is None and listing.whole and known and known.settings.get(_ROOTS) != list(listing.roots):
        raise OtherFolder(
            f"source {wanted} was filled from elsewhere; say --source NAME (--source {wanted} to replace its pages)"
        )
    return known or _new_source(tenant, wanted, listing)


def _new_source(tenant: TenantFacts, name: str, listing: Listing) -> Source:
    """Make a source that knows its folders from the start, so that a run cut short can be taken up again."""
    source = source_named(tenant, name, kind=SourceKind.FOLDER)
    if listing.whole:
        with tenant_scope(tenant):
            source.settings = {**source.settings, _ROOTS: list(listing.roots)}
            source.save(update_fields=["settings"])
    return source


def _end_interrupted(tenant: TenantFacts, source: Source) -> None:
    """End the jobs of runs that were killed: this process holds the source, so nobody works on them."""
    with tenant_scope(tenant):
        jobs_left = Job.objects.filter(tenant_id=tenant.id, source=source, kind=JobKind.FOLDER, state=JobState.RUNNING)
        for job in jobs_left:
            jobs.finish_job(tenant, job, state=JobState.FAILED, reason="interrupted; a later run took over")


def _index(
    tenant: TenantFacts,
    source: Source,
    listing: Listing,
    *,
    flags: dict[str, object],
    progress: Callable[[int, int], None],
) -> Job:
    files = [*(jobs.NewFile(path=found.path) for found in listing.found), *listing.left]
    with tenant_scope(tenant):
        job = jobs.open_job(tenant, source, kind=JobKind.FOLDER, state=JobState.RUNNING, seen=len(files))
        ids = jobs.add_files(tenant, job, files=files)
    try:
        _take_all(tenant, job, dict(zip(ids, listing.found, strict=False)), flags=flags, progress=progress)
        _delete_vanished(tenant, source, listing)
    except (EmbeddingFailed, ModelUnusable) as error:
        jobs.finish_job(tenant, job, state=JobState.FAILED, reason=str(error))
    except KeyboardInterrupt:
        jobs.finish_job(tenant, job, state=JobState.CANCELLED, reason="interrupted")
        raise
    else:
        jobs.finish_job(tenant, job)
    return job


def _take_all(
    tenant: TenantFacts,
    job: Job,
    files: Mapping[int, Found],
    *,
    flags: dict[str, object],
    progress: Callable[[int, int], None],
) -> None:
    def finished(file_id: int, result: jobs.Result) -> None:
        jobs.finish_file(tenant, job, file_id=file_id, result=result)

    indexer = Indexer(tenant, source=job.source, finished=finished)
    for number, (file_id, found) in enumerate(files.items(), 1):
        try:
            content = read(found, max_bytes=settings.KB_MAX_FILE_BYTES)
        except CannotRead as error:
            finished(file_id, jobs.Result(FileState.FAILED, str(error)))
        else:
            indexer.take(found.path, content, asked=Asked(general_flags=flags), file_id=file_id)
        progress(number, len(files))
    indexer.flush()


def _delete_vanished(tenant: TenantFacts, source: Source, listing: Listing) -> None:
    """Delete the pages whose files are gone; only a folder's own source, only when all of it was seen."""
    if not listing.whole or source.kind != SourceKind.FOLDER:
        return
    there = {found.path for found in listing.found}
    with tenant_scope(tenant):
        pages = Page.objects.filter(tenant_id=tenant.id, source=source).values_list("id", "path")
        gone = [page_id for page_id, path in pages if path not in there]
    index.delete_pages(tenant, page_ids=gone)
    with tenant_scope(tenant):
        source.settings = {**source.settings, _ROOTS: list(listing.roots)}
        source.last_sync_at = timezone.now()
        source.save(update_fields=["settings", "last_sync_at"])
