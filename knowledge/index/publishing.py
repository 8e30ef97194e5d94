"""A staged page becomes the live one, in one transaction."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol
from uuid import UUID

from django.db import Error, IntegrityError, connection, transaction

from knowledge.index.staging import model_row
from knowledge.index.statistics import bump_version, have_corpus, have_set, keep_average
from knowledge.languages import configuration, detect
from knowledge.models import FLAGS, Chunk, Page, Source, StagedChunk
from tenants.ids import new_id
from tenants.scope import tenant_scope

LONGEST_SLUG = 200
_NO_VECTOR = "KB001"  # raised by kb_swap_chunks
_UNSET: Mapping[str, Any] = {"source_type": "", "app": "", "product": "", "user_facing": None}


class MissingEmbedding(Exception):
    """A staged chunk has no vector and no live chunk of the page has its text any more; stage it with one."""


class NothingStaged(Exception):
    """A page with a text was to be published without any staged chunk, which would empty it."""


class IndexedTenant(Protocol):
    """What indexing asks of a tenant: its id, and the language of text whose language is not clear."""

    @property
    def id(self) -> UUID: ...
    @property
    def language(self) -> str: ...


@dataclass(frozen=True, slots=True)
class PageFields:
    """A page as it is to be.

    content_hash stands for everything that the chunks depend on; the same hash means the same chunks.
    language is an ISO code, None lets the text decide. flags holds those of source_type, app, product and
    user_facing that the front matter or the request gave; the others fall to what the source says. slug is
    what a new page is to be called where that is free; without one it is made from the path.
    """

    source_id: int
    path: str
    title: str
    body: str
    content_hash: str
    language: str | None = None
    made_by: str = "documents"
    flags: Mapping[str, Any] = field(default_factory=dict)
    url: str = ""
    slug: str = ""


@dataclass(frozen=True, slots=True)
class Published:
    """What publishing did: chunks is what the page has now; changed is false when nothing had to be done."""

    page_id: int
    chunks: int
    changed: bool


def publish(tenant: IndexedTenant, *, page: PageFields, model_id: str) -> Published:
    """Swap the live chunks of a page for its staged ones; readers see the old page or the new one.

    One transaction, under a lock of the page: page row, chunks, lexemes and vectors, then the corpus's
    statistics and its version. Chunks whose prefix and text stayed keep their ids, rows and vectors. With
    an unchanged content_hash and nothing staged only title, URL and flags are looked at. Flags set by hand
    stay. Costs about 0.1 s for 20 new chunks, 4 s for 2,000.

    Raises MissingEmbedding and NothingStaged, and leaves everything as it was.
    """
    with tenant_scope(tenant) as tenant_id:
        _lock(tenant_id, page.source_id, page.path)
        row = _page_row(tenant_id, page)
        before = row.language
        fields_changed = _take_fields(row, page, tenant.language)
        swap = _swap(row, page, model_id, before) if _has_work(row, page, model_id, before) else (0, 0, 0)
        changed = fields_changed or any(swap)
        if changed or row.content_hash != page.content_hash:
            _save(row, page, chunks=row.chunk_count + swap[0] - swap[1])
        if changed:
            bump_version(tenant_id)
    if swap[0] or swap[1]:
        keep_average(tenant)
    return Published(page_id=row.id, chunks=row.chunk_count, changed=changed)


def slug_of(path: str) -> str:
    """Return a path as a slug: letters and digits of any script, everything else a hyphen."""
    plain = unicodedata.normalize("NFC", path).casefold()
    return re.sub(r"[\W_]+", "-", plain).strip("-")[:LONGEST_SLUG].strip("-") or "page"


def _lock(tenant_id: UUID, source_id: int, path: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT pg_advisory_xact_lock(hashtextextended(%s, 0))", [f"page {tenant_id} {source_id} {path}"]
        )


def _page_row(tenant_id: UUID, page: PageFields) -> Page:
    mine = Page.objects.filter(tenant_id=tenant_id, source_id=page.source_id, path=page.path)
    found = mine.select_for_update().first()
    return found or Page(
        tenant_id=tenant_id, id=new_id(), source_id=page.source_id, path=page.path, revision=0, language=""
    )


def _take_fields(row: Page, page: PageFields, tenant_language: str) -> bool:
    """Put the new fields on the row; tells whether any of them differs."""
    if page.language:
        language = page.language
    elif row.content_hash == page.content_hash:
        language = row.language
    else:
        language = detect(page.body, fallback=tenant_language)
    wanted = {
        "title": page.title[:500],
        "body": page.body,
        "url": page.url,
        "made_by": page.made_by,
        **_UNSET,
        **{name: value for name, value in page.flags.items() if name in FLAGS},
        "language": language,
    }
    for name in row.hand_flags:
        wanted.pop(name, None)
    differing = [name for name, value in wanted.items() if getattr(row, name) != value]
    for name in differing:
        setattr(row, name, wanted[name])
    return bool(differing) or row.revision == 0


def _has_work(row: Page, page: PageFields, model_id: str, language_before: str) -> bool:
    staged = StagedChunk.objects.filter(
        tenant_id=row.tenant_id,
        source_id=page.source_id,
        path=page.path,
        content_hash=page.content_hash,
        model__name=model_id,
    )
    if staged.exists():
        return True
    if row.content_hash == page.content_hash:
        if row.chunk_count == 0 or configuration(row.language) == configuration(language_before):
            return False
        _restage(row, model_id)
        return True
    if page.body.strip():
        raise NothingStaged(f"{page.path}: no chunk is staged for its new content")
    return True


def _restage(row: Page, model_id: str) -> None:
    """Stage a page's own chunks again, to be read in another language."""
    fields = ("ord", "text", "prefix", "heading", "first_line", "last_line", "text_hash")
    same = {
        "tenant_id": row.tenant_id,
        "source_id": row.source_id,
        "path": row.path,
        "content_hash": row.content_hash,
        "model": model_row(model_id, dimensions=None),
    }
    chunks = Chunk.objects.filter(tenant_id=row.tenant_id, page_id=row.id).values(*fields)
    StagedChunk.objects.bulk_create(StagedChunk(**same, **chunk) for chunk in chunks)


def _swap(row: Page, page: PageFields, model_id: str, language_before: str) -> tuple[int, int, int]:
    """Swap the chunks; returns how many came, went and moved."""
    have_corpus(row.tenant_id)
    if row.revision == 0:
        _insert_with_free_slug(row, page.slug)
    model = model_row(model_id, dimensions=None)
    have_set(model)
    try:
        with connection.cursor() as cursor:
            cursor.execute(
                "SELECT added, removed, moved FROM kb_swap_chunks(%s, %s, %s, %s, %s::smallint, %s, %s)",
                [
                    row.id,
                    page.source_id,
                    page.path,
                    page.content_hash,
                    model.pk,
                    configuration(row.language),
                    configuration(language_before),
                ],
            )
            added, removed, moved = cursor.fetchone()
    except Error as error:
        if getattr(error.__cause__, "sqlstate", None) == _NO_VECTOR:
            raise MissingEmbedding(str(error)) from error
        raise
    StagedChunk.objects.filter(tenant_id=row.tenant_id, source_id=page.source_id, path=page.path).delete()
    return added, removed, moved


def _save(row: Page, page: PageFields, *, chunks: int) -> None:
    if row.revision == 0 and row._state.adding:
        _insert_with_free_slug(row, page.slug)
    row.content_hash = page.content_hash
    row.chunk_count = chunks
    row.revision += 1
    row.save()


def _insert_with_free_slug(row: Page, wanted: str) -> None:
    """Insert the page under the first slug that nobody has: path, path-source, path-source-2 and so on."""
    for slug in _slugs(row, wanted):
        if Page.objects.filter(tenant_id=row.tenant_id, slug=slug).exists():
            continue
        row.slug = slug
        try:
            with transaction.atomic():
                row.save(force_insert=True)
            return
        except IntegrityError:  # taken in this moment
            continue


def _slugs(row: Page, wanted: str) -> Iterator[str]:
    plain = slug_of(wanted or row.path)
    yield plain
    source = Source.objects.only("name").get(tenant_id=row.tenant_id, id=row.source_id)
    yield f"{plain}-{slug_of(source.name)[:40]}"
    number = 2
    while True:
        yield f"{plain}-{slug_of(source.name)[:40]}-{number}"
        number += 1
