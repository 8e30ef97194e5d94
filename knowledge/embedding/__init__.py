"""The one door to embedding models: text in, unit vectors out. Nothing heavy is imported before it is used."""

from __future__ import annotations

import os
from collections.abc import Sequence

from knowledge.embedding.providers import Provider, current_spec, is_ready, provider, warm
from knowledge.embedding.queries import EncoderBusy, embed_query, embed_query_future
from knowledge.embedding.specs import EmbeddingFailed, ModelSpec, ModelUnusable, Role
from knowledge.embedding.vectors import Vectors

__all__ = [
    "EmbeddingFailed",
    "EncoderBusy",
    "ModelSpec",
    "ModelUnusable",
    "Provider",
    "Role",
    "Vectors",
    "current_spec",
    "embed_documents",
    "embed_query",
    "embed_query_future",
    "is_ready",
    "provider",
    "warm",
]

# onnxruntime reports its use to its maker unless told not to before it is imported. Nothing leaves this server
# that its owner has not chosen.
os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")


def embed_documents(texts: Sequence[str], *, model: str | None = None) -> Vectors:
    """Unit vectors of passages, float32 [n, dimensions], in order; what exceeds `max_tokens` is not read.

    Give many texts at once: they are embedded in batches of near-equal length. About 20 a second of 200
    tokens with the default model. `model` asks for another model. Raises EmbeddingFailed.
    """
    return provider(model).embed(texts, role="document")
