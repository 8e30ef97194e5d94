"""Embedding drafts in batches across pages, staging them in small steps, publishing each page at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

import numpy as np
from django.db import DataError, IntegrityError, transaction
from numpy.typing import NDArray

from knowledge import index
from knowledge.embedding import current_spec, embed_documents
from knowledge.ingest.exclusive import hold_page
from knowledge.ingest.reading import Draft, DraftChunk
from knowledge.models import Source
from tenants.facts import TenantFacts
from tenants.scope import tenant_scope

# Chunks embedded and staged in one step: a few seconds of work, which is what a kill can cost.
STEP = 64
Token = TypeVar("Token")


class Interrupted(Exception):
    """The work was asked to stop; what is staged is used when it goes on."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a draft: its page, or why it could not be stored."""

    page_id: int | None
    fault: str = ""


@dataclass(eq=False, slots=True)
class _Waiting(Generic[Token]):
    draft: Draft
    token: Token
    missing: list[DraftChunk]  # neither staged nor live with the same text


class Pipeline(Generic[Token]):
    """Takes drafts of one source and publishes them; call `add` for each and `flush` at the end.

    ``published(token, draft, outcome)`` is called inside the transaction that shows the page, so that
    the page and what is recorded of it stand or fall together. ``must_stop`` is asked between steps;
    when it says yes, Interrupted is raised. EmbeddingFailed and errors of the database pass through.
    """

    def __init__(
        self,
        tenant: TenantFacts,
        *,
        source: Source,
        published: Callable[[Token, Draft, Outcome], None],
        must_stop: Callable[[], bool] = lambda: False,
    ) -> None:
        self._tenant, self._source = tenant, source
        self._published, self._must_stop = published, must_stop
        self._waiting: list[_Waiting[Token]] = []
        self._model = current_spec().id

    def add(self, draft: Draft, token: Token) -> None:
        """Take a draft; publishes all that wait when there is enough to embed."""
        self._waiting.append(self._examined(draft, token))
        if sum(len(waiting.missing) or 1 for waiting in self._waiting) >= STEP:
            self.flush()

    def flush(self) -> None:
        """Embed, stage and publish everything that waits."""
        taken, self._waiting = self._waiting, []
        for waiting in taken:
            if not waiting.missing:
                with tenant_scope(self._tenant):
                    self._publish(waiting)
        work = [(waiting, chunk) for waiting in taken for chunk in waiting.missing]
        for start in range(0, len(work), STEP):
            self._stop_if_asked()
            self._embed(work[start : start + STEP])
        self._stop_if_asked()

    def _stop_if_asked(self) -> None:
        if self._must_stop():
            raise Interrupted

    def _examined(self, draft: Draft, token: Token) -> _Waiting[Token]:
        """Find out which chunks have a vector: staged by an earlier run, or live with the same text."""
        with tenant_scope(self._tenant):
            staged, live = self._staged(draft), self._live(draft)
        waiting: _Waiting[Token] = _Waiting(draft, token, missing=[])
        for chunk in draft.chunks:
            if chunk.ord not in staged and index.text_hash(chunk.prefix, chunk.text) not in live:
                waiting.missing.append(chunk)
        return waiting

    def _staged(self, draft: Draft) -> frozenset[int]:
        """Return which chunks of a draft are staged, by ord."""
        return index.staged(
            self._tenant,
            source_id=self._source.pk,
            path=draft.path,
            content_hash=draft.content_hash,
            model_id=self._model,
        )

    def _live(self, draft: Draft) -> frozenset[str]:
        """Return which texts of a draft's page are live with a vector, by hash."""
        return index.live_hashes(self._tenant, source_id=self._source.pk, path=draft.path, model_id=self._model)

    def _embed(self, work: Sequence[tuple[_Waiting[Token], DraftChunk]]) -> None:
        """Embed chunks of several pages at once, stage each page's, publish those that are whole."""
        pages: dict[_Waiting[Token], list[index.ReadyChunk]] = {}
        for (waiting, _), chunk in zip(work, embedded([chunk for _, chunk in work]), strict=True):
            pages.setdefault(waiting, []).append(chunk)
        for waiting, chunks in pages.items():
            with tenant_scope(self._tenant):
                self._stage(waiting.draft, chunks)
                waiting.missing = waiting.missing[len(chunks) :]  # taken in order
                if not waiting.missing:
                    self._publish(waiting)

    def _stage(self, draft: Draft, chunks: Sequence[index.ReadyChunk]) -> None:
        if chunks:
            index.stage(
                self._tenant,
                source_id=self._source.pk,
                path=draft.path,
                content_hash=draft.content_hash,
                model_id=self._model,
                chunks=chunks,
            )

    def _publish(self, waiting: _Waiting[Token]) -> None:
        """Show a page whose chunks all have vectors, and report it, in one transaction."""
        draft = waiting.draft
        with tenant_scope(self._tenant):
            try:
                with transaction.atomic():
                    outcome = Outcome(self._shown(waiting))
            except (DataError, IntegrityError, index.ChunkTooLong) as error:
                outcome = Outcome(None, f"could not be stored: {type(error).__name__}")
            self._published(waiting.token, draft, outcome)

    def _shown(self, waiting: _Waiting[Token]) -> int:
        """Publish and return the page's id.

        What we counted on may have gone since: staged chunks when someone else published this path, live
        ones with an edit or a deletion. Those are embedded here and now, inside the transaction; rare.
        """
        draft = waiting.draft
        hold_page(self._tenant, source_id=self._source.pk, path=draft.path)
        staged = self._staged(draft)
        rest = [chunk for chunk in draft.chunks if chunk.ord not in staged]
        if rest:
            live = self._live(draft)
            lost = [chunk for chunk in rest if index.text_hash(chunk.prefix, chunk.text) not in live]
            self._stage(draft, [*embedded(lost), *(ready(chunk, None) for chunk in rest if chunk not in lost)])
        return index.publish(self._tenant, page=self._fields(draft), model_id=self._model).page_id

    def _fields(self, draft: Draft) -> index.PageFields:
        language = draft.flags.get("language")
        return index.PageFields(
            source_id=self._source.pk,
            path=draft.path,
            title=draft.title,
            body=draft.body,
            content_hash=draft.content_hash,
            language=str(language) if language else None,
            flags=draft.flags,
            slug=draft.slug,
        )


def embedded(chunks: Sequence[DraftChunk]) -> list[index.ReadyChunk]:
    """Return the chunks with their vectors. Raises EmbeddingFailed."""
    if not chunks:
        return []
    vectors = embed_documents([index.indexed_text(chunk.prefix, chunk.text) for chunk in chunks])
    return [ready(chunk, vector) for chunk, vector in zip(chunks, vectors, strict=True)]


def ready(chunk: DraftChunk, vector: NDArray[np.float32] | None) -> index.ReadyChunk:
    """Return a chunk with its vector; None takes that of the live chunk with the same text."""
    return index.ReadyChunk(
        ord=chunk.ord,
        text=chunk.text,
        prefix=chunk.prefix,
        heading=chunk.heading,
        first_line=chunk.first_line,
        last_line=chunk.last_line,
        embedding=vector,
    )
