"""Chunks that a caller cut: indexed while it waits."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from knowledge import index
from knowledge.chunking import contextual_prefix, title_of
from knowledge.embedding import current_spec
from knowledge.ingest.exclusive import hold_page
from knowledge.ingest.pipeline import embedded, ready
from knowledge.ingest.reading import LONGEST_TITLE, DraftChunk
from knowledge.ingest.sources import known_source, source_named
from knowledge.ingest.texts import path_fault
from knowledge.models import Chunk, MadeBy, Page, Source, SourceKind
from knowledge.screening import screen
from knowledge.walking import clean
from tenants.facts import TenantFacts
from tenants.scope import tenant_scope

DEFAULT_SOURCE = "api"
LONGEST_CHUNK = 65_536
LARGEST_INDEX = 2**31 - 1
_KEPT = ("source_type", "app", "product", "user_facing")  # a request of chunks says nothing about them
_BETWEEN = "\n\n"  # one blank line between the chunks of a page


@dataclass(frozen=True, slots=True)
class GivenChunk:
    """A chunk as given: its place in its page, and the headings above it."""

    content: str = field(repr=False)
    file_path: str
    chunk_index: int
    heading: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ChunkError:
    """Why a chunk of a request was not stored; chunk is its number in the request, from 0."""

    chunk: int
    reason: str


@dataclass(frozen=True, slots=True)
class ChunkCounts:
    """What became of a request's chunks. skipped were kept out by the screening, failed broke a rule."""

    stored: int
    skipped: int
    failed: int
    total: int
    errors: tuple[ChunkError, ...] = ()


def ingest_chunks(
    tenant: TenantFacts, chunks: Sequence[GivenChunk], *, source: str = DEFAULT_SOURCE, replace: bool = False
) -> ChunkCounts:
    """Store chunks; the same path and index with other content replaces that chunk.

    A page is its chunks in the order of their indexes, joined by one blank line. replace drops the chunks
    of the request's paths that were not sent. What is stored already moves nothing and is not embedded
    again. Each page changes in one transaction. Raises BadSource, and EmbeddingFailed: then pages done
    before stay done, and the same request can be sent again.
    """
    pages: dict[str, _Asked] = {}
    skipped: list[ChunkError] = []
    failed: list[ChunkError] = []
    for number, given in enumerate(chunks):
        chunk = _storable(given)
        page = pages.setdefault(chunk.file_path, _Asked())
        if fault := _fault(chunk):
            failed.append(ChunkError(number, fault))
            page.faulty.add(chunk.chunk_index)
        elif reason := _rejection(chunk):
            skipped.append(ChunkError(number, reason))
            page.reject(chunk)
        else:
            page.want(chunk)
    _store(tenant, pages, source=source, replace=replace)
    stored = len(chunks) - len(skipped) - len(failed)
    errors = tuple(sorted([*skipped, *failed], key=lambda error: error.chunk))
    return ChunkCounts(stored, len(skipped), len(failed), len(chunks), errors)


@dataclass(slots=True)
class _Asked:
    """What a request wants of one page; the last word on an index counts."""

    wanted: dict[int, GivenChunk] = field(default_factory=dict)
    rejected: set[int] = field(default_factory=set)  # kept out, and what stood there before goes too
    faulty: set[int] = field(default_factory=set)  # broke a rule: what stood there before stays

    def want(self, chunk: GivenChunk) -> None:
        self.wanted[chunk.chunk_index] = chunk
        self.rejected.discard(chunk.chunk_index)

    def reject(self, chunk: GivenChunk) -> None:
        self.rejected.add(chunk.chunk_index)
        self.wanted.pop(chunk.chunk_index, None)


@dataclass(frozen=True, slots=True)
class _Plan:
    """A page as it is to be, and which of its chunks have no vector yet."""

    page: Page | None
    chunks: list[DraftChunk]
    missing: list[DraftChunk]
    changed: bool


def _storable(given: GivenChunk) -> GivenChunk:
    heading = tuple(clean(name) for name in given.heading)
    return GivenChunk(clean(given.content), clean(given.file_path), given.chunk_index, heading)


def _fault(chunk: GivenChunk) -> str:
    if fault := path_fault(chunk.file_path):
        return f"file_path: {fault}"
    if not 0 <= chunk.chunk_index <= LARGEST_INDEX:
        return f"chunk_index: use 0 to {LARGEST_INDEX}"
    if not chunk.content.strip():
        return "content: it is empty"
    if len(chunk.content) > LONGEST_CHUNK:
        return f"content: longer than {LONGEST_CHUNK:,} characters"
    return ""


def _rejection(chunk: GivenChunk) -> str:
    verdict = screen(chunk.content, path=chunk.file_path)
    return verdict.reason if verdict is not None else ""


def _store(tenant: TenantFacts, pages: Mapping[str, _Asked], *, source: str, replace: bool) -> None:
    anything = any(asked.wanted for asked in pages.values())
    place = source_named(tenant, source, kind=SourceKind.API) if anything else known_source(tenant, source)
    if place is None:  # nothing to store and nothing there: no source is made for it
        return
    for path, asked in sorted(pages.items()):
        if asked.wanted or asked.rejected:
            _store_page(tenant, place, path, asked=asked, replace=replace)


def _store_page(tenant: TenantFacts, source: Source, path: str, *, asked: _Asked, replace: bool) -> None:
    """Merge chunks into a page. Embedding comes before the page is locked, as far as it can be foreseen."""
    plan = _plan(tenant, source, path, asked=asked, replace=replace)
    vectors = _vectors(plan.missing)
    with tenant_scope(tenant):
        hold_page(tenant, source_id=source.pk, path=path)
        plan = _plan(tenant, source, path, asked=asked, replace=replace)
        if not plan.changed:
            return
        if not plan.chunks:
            index.delete_pages(tenant, page_ids=[plan.page.pk] if plan.page else [])
            return
        vectors |= _vectors([chunk for chunk in plan.missing if _hash(chunk) not in vectors])
        _publish(tenant, source, path, plan=plan, vectors=vectors)


def _plan(tenant: TenantFacts, source: Source, path: str, *, asked: _Asked, replace: bool) -> _Plan:
    with tenant_scope(tenant):
        page = Page.objects.filter(tenant_id=tenant.id, source=source, path=path).first()
        before = _given(tenant, page)
        live = index.live_hashes(tenant, source_id=source.pk, path=path, model_id=current_spec().id)
    kept = {
        number: chunk
        for number, chunk in before.items()
        if number not in asked.rejected and not (replace and number not in asked.faulty)
    }
    after = {**kept, **asked.wanted}
    drafts = _drafts(path, after)
    missing = [draft for draft in drafts if _hash(draft) not in live] if after != before else []
    return _Plan(page, drafts, missing, changed=after != before)


def _given(tenant: TenantFacts, page: Page | None) -> dict[int, GivenChunk]:
    """Return a page's chunks as they were given; none for a page that we cut ourselves."""
    if page is None or page.made_by != MadeBy.CHUNKS:
        return {}
    rows = Chunk.objects.filter(tenant_id=tenant.id, page=page)
    return {row.ord: GivenChunk(row.text, page.path, row.ord, tuple(row.heading)) for row in rows}


def _drafts(path: str, chunks: Mapping[int, GivenChunk]) -> list[DraftChunk]:
    drafts, line = [], 1
    for number, chunk in sorted(chunks.items()):
        prefix = contextual_prefix(path, chunk.heading)
        last = line + chunk.content.rstrip("\n").count("\n")
        drafts.append(DraftChunk(number, chunk.content, prefix, chunk.heading, line, last))
        line += chunk.content.count("\n") + _BETWEEN.count("\n")
    return drafts


def _vectors(drafts: Sequence[DraftChunk]) -> dict[str, NDArray[np.float32] | None]:
    return {_hash(draft): chunk.embedding for draft, chunk in zip(drafts, embedded(drafts), strict=True)}


def _hash(draft: DraftChunk) -> str:
    return index.text_hash(draft.prefix, draft.text)


def _publish(
    tenant: TenantFacts,
    source: Source,
    path: str,
    *,
    plan: _Plan,
    vectors: Mapping[str, NDArray[np.float32] | None],
) -> None:
    body = _BETWEEN.join(draft.text for draft in plan.chunks)
    facts = "\0".join(f"{draft.ord} {draft.heading} {_hash(draft)}" for draft in plan.chunks)
    content_hash = hashlib.sha256(facts.encode()).hexdigest()
    chunks = [ready(draft, vectors.get(_hash(draft))) for draft in plan.chunks]
    model = current_spec().id
    index.stage(tenant, source_id=source.pk, path=path, content_hash=content_hash, model_id=model, chunks=chunks)
    page = index.PageFields(
        source_id=source.pk,
        path=path,
        content_hash=content_hash,
        title=title_of(path, body)[:LONGEST_TITLE],
        body=body,
        made_by=MadeBy.CHUNKS,
        flags={name: getattr(plan.page, name) for name in _KEPT} if plan.page else {},
    )
    index.publish(tenant, page=page, model_id=model)
