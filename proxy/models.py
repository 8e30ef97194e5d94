"""What the wire has to remember."""

from __future__ import annotations

from typing import ClassVar

from django.db import models

from tenants.models import Key
from tenants.rows import TenantForeignKey, TenantModel


class RememberedBlock(TenantModel):
    """A knowledge block that went into a question of some session, to be put back byte for byte.

    session and question are SHA-256 in hex: neither the client's session id nor the user's words are kept
    here. filter is the fingerprint of the knowledge filter; chunks is [[chunk id, content hash], …] as
    quoted.
    """

    key = TenantForeignKey(Key, on_delete=models.CASCADE, related_name="+")
    session = models.CharField(max_length=64)
    question = models.CharField(max_length=64)
    occurrence = models.PositiveIntegerField()
    placement = models.CharField(max_length=10)
    top_k = models.PositiveSmallIntegerField()
    filter = models.CharField(max_length=16)
    text = models.TextField()
    chunks = models.JSONField(default=list)
    tokens = models.PositiveIntegerField()
    created_at = models.DateTimeField()

    class Meta:
        constraints: ClassVar = [
            # The gateway reads by tenant, key, sessions and questions, and writes by all of it.
            models.UniqueConstraint(
                fields=["tenant", "key", "session", "question", "occurrence", "placement", "top_k", "filter"],
                name="block_once_per_question",
            ),
        ]
        indexes: ClassVar = [
            # Forgetting of old blocks.
            models.Index(fields=["tenant", "created_at"], name="block_by_age"),
        ]

    def __str__(self) -> str:
        return f"block of {self.tokens} tokens"
