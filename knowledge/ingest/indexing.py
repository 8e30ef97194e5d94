"""One document after another into one source: unchanged, left out, or published."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace

from knowledge import index
from knowledge.ingest.flags import changes
from knowledge.ingest.pipeline import Outcome, Pipeline
from knowledge.ingest.reading import Asked, Draft, Left, content_hash, flags_of, read, text_of
from knowledge.jobs import Result
from knowledge.models import FileState, MadeBy, Page, Source
from tenants.facts import TenantFacts
from tenants.scope import tenant_scope

_log = logging.getLogger(__name__)


class Indexer:
    """Indexes documents of one source, each named by the id of its file in a job.

    ``finished(file id, result)`` is called once for each document, inside the transaction that shows
    its page where there is one. Call `flush` at the end; see Pipeline for what is raised.
    """

    def __init__(
        self,
        tenant: TenantFacts,
        *,
        source: Source,
        finished: Callable[[int, Result], None],
        must_stop: Callable[[], bool] = lambda: False,
    ) -> None:
        self._tenant, self._source, self._finished = tenant, source, finished
        self._pipeline: Pipeline[int] = Pipeline(tenant, source=source, published=self._published, must_stop=must_stop)

    def take(self, path: str, content: bytes, *, asked: Asked, file_id: int) -> None:
        """Index a document, or find out why not. What waits is published by a later call or `flush`."""
        characters = text_of(content)
        if isinstance(characters, Left):
            self._finished(file_id, Result(characters.state, characters.reason))
            return
        text, note = characters
        page = self._page(path)
        if page is not None and page.content_hash == content_hash(text, title=asked.title):
            self._keep(page, text, asked, file_id)
            return
        draft = self._read(path, text, asked)
        if isinstance(draft, Left):
            self._leave(page, draft, file_id)
        else:
            reasons = "; ".join(filter(None, [note, draft.left_out]))
            self._pipeline.add(replace(draft, left_out=reasons), file_id)

    def flush(self) -> None:
        """Publish everything that waits."""
        self._pipeline.flush()

    def _page(self, path: str) -> Page | None:
        with tenant_scope(self._tenant):
            pages = Page.objects.filter(tenant_id=self._tenant.id, source=self._source, path=path)
            return pages.filter(made_by=MadeBy.DOCUMENTS).first()

    def _read(self, path: str, text: str, asked: Asked) -> Draft | Left:
        try:
            return read(path, text, asked=asked)
        except Exception as error:  # one document that our own code cannot take must not stop the others
            _log.exception("a document could not be cut into chunks")
            return Left(FileState.FAILED, f"could not be read: {type(error).__name__}")

    def _keep(self, page: Page, text: str, asked: Asked, file_id: int) -> None:
        with tenant_scope(self._tenant):
            different = changes(page, flags_of(page.path, text, asked))
            if different:
                index.set_flags(self._tenant, page_ids=[page.pk], by_hand=False, **different)
            self._finished(file_id, Result(FileState.UNCHANGED, page_id=page.pk))

    def _leave(self, page: Page | None, left: Left, file_id: int) -> None:
        """Record a document that is not indexed; when nothing of it may be shown, its old page goes too."""
        with tenant_scope(self._tenant):
            if page is not None and left.state == FileState.QUARANTINED:
                index.delete_pages(self._tenant, page_ids=[page.pk])
            self._finished(file_id, Result(left.state, left.reason))

    def _published(self, file_id: int, draft: Draft, outcome: Outcome) -> None:
        if outcome.fault:
            self._finished(file_id, Result(FileState.FAILED, outcome.fault))
        else:
            self._finished(file_id, Result(FileState.INDEXED, draft.left_out, outcome.page_id))
