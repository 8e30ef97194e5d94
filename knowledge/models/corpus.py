"""What is known of a tenant's corpus as a whole: the numbers that ranking needs."""

from __future__ import annotations

from typing import ClassVar

from django.db import models
from django.db.models import Q
from pgvector.django import VectorField

from tenants.rows import TenantModel

# A btree entry holds 2,704 bytes: 1,320 half-precision numbers with the rest of the entry.
MOST_DIMENSIONS = 1_320


class EmbeddingModel(models.Model):
    """A model that vectors of some tenant were made with. Belongs to no tenant: names and sizes only."""

    id = models.SmallAutoField(primary_key=True)
    name = models.CharField(max_length=200, unique=True)
    dimensions = models.PositiveSmallIntegerField()

    class Meta:
        constraints: ClassVar = [
            models.CheckConstraint(
                condition=Q(dimensions__gte=1, dimensions__lte=MOST_DIMENSIONS), name="model_dimensions_in_range"
            ),
        ]

    def __str__(self) -> str:
        return self.name


class EmbeddingSet(TenantModel):
    """A tenant's vectors under one model: whether searches use them, their sum and their number.

    A set is building until every chunk has a vector, then live; the one before it is kept until it is
    dropped. The sum gives a question's mean cosine to all chunks, which no index could.
    """

    class State(models.TextChoices):
        """What searches may do with the set."""

        BUILDING = "building", "being built, not searched"
        LIVE = "live", "searched"
        KEPT = "kept", "searched for programs that still run the earlier model"

    model = models.ForeignKey(EmbeddingModel, on_delete=models.PROTECT, related_name="+", db_index=False)
    state = models.CharField(max_length=10, choices=State.choices, default=State.BUILDING)
    embedding_sum = VectorField()
    count = models.PositiveIntegerField(default=0)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["tenant", "model"], name="embedding_set_once_per_model"),
            models.UniqueConstraint(fields=["tenant"], condition=Q(state="live"), name="embedding_set_one_live"),
        ]

    def __str__(self) -> str:
        return f"set of model {self.model_id}, {self.state}"


class Lexeme(TenantModel):
    """In how many of a tenant's chunks a lexeme stands (df)."""

    id = None  # type: ignore[assignment]
    pk = models.CompositePrimaryKey("tenant_id", "lexeme")
    lexeme = models.TextField(db_collation="C")
    df = models.PositiveIntegerField()

    class Meta:
        constraints: ClassVar = [models.CheckConstraint(condition=Q(df__gt=0), name="lexeme_stands_somewhere")]

    def __str__(self) -> str:
        return self.lexeme


class Corpus(TenantModel):
    """One row per tenant; it moves with every change of what can be retrieved.

    version goes up by one with each such change. average_length is what the chunks' BM25 weights were
    made with (frozen between two refreezes), tokens the true sum of lengths. languages counts the chunks
    per text search configuration.
    """

    version = models.PositiveBigIntegerField(default=0)
    chunks = models.PositiveIntegerField(default=0)
    tokens = models.PositiveBigIntegerField(default=0)
    average_length = models.FloatField(default=0)
    languages = models.JSONField(default=dict)
    last_ingest_at = models.DateTimeField(null=True)

    class Meta:
        constraints: ClassVar = [models.UniqueConstraint(fields=["tenant"], name="corpus_one_per_tenant")]
        verbose_name_plural = "corpora"

    def __str__(self) -> str:
        return f"{self.chunks} chunks, version {self.version}"
