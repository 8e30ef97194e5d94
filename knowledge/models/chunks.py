"""Chunks: what people read of them, what the two lanes of a search read, and where new ones are gathered."""

from __future__ import annotations

from typing import ClassVar

from django.contrib.postgres.fields import ArrayField
from django.contrib.postgres.indexes import GinIndex
from django.contrib.postgres.search import SearchVectorField
from django.db import models
from django.db.models import Deferrable, F, Q
from pgvector.django import HalfVectorField, SparseVectorField

from knowledge.models.corpus import EmbeddingModel
from knowledge.models.pages import LONGEST_PATH, Page, Source
from tenants.rows import TenantForeignKey, TenantModel


class Chunk(TenantModel):
    """A retrievable piece of a page: its text, where it stands, and the prefix that gives it context.

    The prefix (path, headings or symbols) is indexed and embedded with the text but is not part of it.
    first_line and last_line are 1-based, inclusive, of the page as ingested. text_hash is the SHA-256 of
    prefix and text: equal hashes, equal lexemes and vectors.
    """

    page = TenantForeignKey(Page, on_delete=models.CASCADE, related_name="chunks")
    ord = models.PositiveIntegerField()
    text = models.TextField()
    prefix = models.TextField(blank=True)
    heading = ArrayField(models.TextField(), default=list, blank=True)
    first_line = models.PositiveIntegerField()
    last_line = models.PositiveIntegerField()
    text_hash = models.CharField(max_length=64)

    class Meta:
        constraints: ClassVar = [
            # Deferred: a swap moves chunks past each other.
            models.UniqueConstraint(
                fields=["tenant", "page", "ord"], name="chunk_order_once_per_page", deferrable=Deferrable.DEFERRED
            ),
            models.CheckConstraint(
                condition=Q(first_line__gte=1, last_line__gte=F("first_line")), name="chunk_lines_in_order"
            ),
        ]

    def __str__(self) -> str:
        return f"chunk {self.ord} of page {self.page_id}"


class ChunkTerms(TenantModel):
    """A chunk as the text lane reads it.

    tsv holds its lexemes and the tenant's own lexeme ``~t<tenant>``, bm its BM25 weights by lexeme (see
    knowledge/sql/lexemes.sql), length the number of its lexemes with repetitions.
    """

    id = None  # type: ignore[assignment]
    pk = models.CompositePrimaryKey("tenant_id", "chunk_id")
    chunk = TenantForeignKey(Chunk, on_delete=models.CASCADE, related_name="+")
    page_id = models.BigIntegerField()
    tsv = SearchVectorField()
    bm = SparseVectorField()
    length = models.PositiveIntegerField()

    class Meta:
        indexes: ClassVar = [
            # kb_search, text lane.
            GinIndex(fields=["tsv"], name="terms_tsv", fastupdate=False),
            # kb_search, text lane under a filter; deletion of pages.
            models.Index(fields=["tenant", "page_id"], name="terms_by_page"),
        ]
        verbose_name_plural = "chunk terms"

    def __str__(self) -> str:
        return f"terms of chunk {self.chunk_id}"


class Embedding(TenantModel):
    """A chunk's vector under one model, of unit length.

    The column has no dimension, so that vectors of two models stand side by side while a tenant moves
    from one to the other. An index entry takes 1,320 dimensions at most.
    """

    id = None  # type: ignore[assignment]
    pk = models.CompositePrimaryKey("tenant_id", "chunk_id", "model_id")
    chunk = TenantForeignKey(Chunk, on_delete=models.CASCADE, related_name="+")
    model = models.ForeignKey(EmbeddingModel, on_delete=models.PROTECT, related_name="+", db_index=False)
    page_id = models.BigIntegerField()
    embedding = HalfVectorField()

    class Meta:
        indexes: ClassVar = [
            # kb_search, vector lane: exact distances without reading the table, pages as index conditions. The
            # model comes first, so that nobody takes this index for one of the tenant's chunks: before the
            # first ANALYZE the planner did, and read all of the tenant's vectors for each chunk it looked up.
            models.Index(
                fields=["model", "tenant", "page_id"], include=["chunk_id", "embedding"], name="embedding_in_page_order"
            ),
        ]

    def __str__(self) -> str:
        return f"vector of chunk {self.chunk_id}"


class StagedChunk(TenantModel):
    """A finished chunk that waits until all of its page's chunks are there.

    It belongs to one content (content_hash) of one path under one model, and becomes the live chunk with
    its id when the page is published. No embedding means: take the live one of the same text_hash.
    """

    source = TenantForeignKey(Source, on_delete=models.CASCADE, related_name="+")
    path = models.CharField(max_length=LONGEST_PATH, db_collation="C")
    content_hash = models.CharField(max_length=64)
    model = models.ForeignKey(EmbeddingModel, on_delete=models.PROTECT, related_name="+", db_index=False)
    ord = models.PositiveIntegerField()
    text = models.TextField()
    prefix = models.TextField(blank=True)
    heading = ArrayField(models.TextField(), default=list, blank=True)
    first_line = models.PositiveIntegerField()
    last_line = models.PositiveIntegerField()
    text_hash = models.CharField(max_length=64)
    embedding = HalfVectorField(null=True)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints: ClassVar = [
            # Staging is resumed by it; publishing and clearing read by it.
            models.UniqueConstraint(
                fields=["tenant", "source", "path", "content_hash", "model", "ord"], name="staged_once"
            ),
        ]

    def __str__(self) -> str:
        return f"staged chunk {self.ord} of {self.path}"
