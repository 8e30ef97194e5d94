"""What there is to know about an embedding model before it is loaded: sizes, prefixes, languages."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Literal

MAX_DIMENSIONS = 1320
"""The covering btree keeps the vector, 2 bytes a dimension, and an entry holds at most 2,704 bytes."""

ASKED_INSTEAD = 1024
"""Dimensions asked of an API whose model has more than MAX_DIMENSIONS and can give fewer."""

Role = Literal["query", "document"]


class EmbeddingFailed(Exception):
    """The text could not be turned into a vector."""


class ModelUnusable(EmbeddingFailed):
    """The embedding model that the settings name can't be used."""


@dataclass(frozen=True, slots=True)
class ModelSpec:
    """An embedding model: `id` is stored with every vector, so two models never mix.

    `max_tokens` is what the model reads of a text, prefix included; the rest is cut. `background_cosine` is
    the mean cosine of unrelated texts, the zero point of evidence for a small tenant. `languages` are ISO
    639-1 codes, or None when the model knows most languages.
    """

    id: str
    dimensions: int
    max_tokens: int
    query_prefix: str = ""
    document_prefix: str = ""
    background_cosine: float = 0.0
    languages: frozenset[str] | None = None

    def prefix(self, role: Role) -> str:
        """What is put before a text in this role."""
        return self.query_prefix if role == "query" else self.document_prefix


ENGLISH = frozenset({"en"})

E5_SMALL = ModelSpec(
    id="multilingual-e5-small",
    dimensions=384,
    max_tokens=512,
    query_prefix="query: ",
    document_prefix="passage: ",
    background_cosine=0.746,  # measured over foreign questions and chunks
)
MINILM = ModelSpec(
    id="all-MiniLM-L6-v2",
    dimensions=384,
    max_tokens=256,
    background_cosine=0.006,  # measured in the same way
    languages=ENGLISH,
)
NOMIC = ModelSpec(
    id="nomic-embed-text-v1.5",
    dimensions=768,
    max_tokens=8192,
    query_prefix="search_query: ",
    document_prefix="search_document: ",
    background_cosine=0.45,  # an estimate: fades as the tenant's own chunks come in
    languages=ENGLISH,
)
HASH = ModelSpec(id="hash-384", dimensions=384, max_tokens=1_000_000, background_cosine=0.0)

# Their makers publish sizes and limits; the background cosines are estimates that fade with the first chunks.
OPENAI_SMALL = ModelSpec(id="text-embedding-3-small", dimensions=ASKED_INSTEAD, max_tokens=8191, background_cosine=0.1)
OPENAI_LARGE = replace(OPENAI_SMALL, id="text-embedding-3-large")
VOYAGE = ModelSpec(id="voyage-3.5", dimensions=1024, max_tokens=32_000, background_cosine=0.3)
VOYAGE_LITE = replace(VOYAGE, id="voyage-3.5-lite")
VOYAGE_CODE = replace(VOYAGE, id="voyage-code-3")

KNOWN: Mapping[str, ModelSpec] = MappingProxyType(
    {
        spec.id: spec
        for spec in (
            *(E5_SMALL, MINILM, NOMIC, HASH),
            *(OPENAI_SMALL, OPENAI_LARGE, VOYAGE, VOYAGE_LITE, VOYAGE_CODE),
        )
    }
)
HUB_NAMES: Mapping[str, str] = MappingProxyType(
    {
        "intfloat/multilingual-e5-small": E5_SMALL.id,
        "sentence-transformers/all-MiniLM-L6-v2": MINILM.id,
        "nomic-ai/nomic-embed-text-v1.5": NOMIC.id,
        "nomic-embed-text": NOMIC.id,  # its name in Ollama
    }
)


def known_spec(name: str) -> ModelSpec | None:
    """The spec of a model we know, by its short name or its name on the hub; None for any other model."""
    return KNOWN.get(HUB_NAMES.get(name, name))


def checked(spec: ModelSpec) -> ModelSpec:
    """`spec` itself. Raises ModelUnusable when its vectors don't fit the index."""
    if spec.dimensions > MAX_DIMENSIONS:
        raise ModelUnusable(
            f"{spec.id} gives vectors of {spec.dimensions} dimensions, and {MAX_DIMENSIONS} is the most that "
            f"fits. Choose a smaller model, or one whose API can give fewer (KB_EMBEDDING_DIMENSIONS)."
        )
    if spec.dimensions < 1:
        raise ModelUnusable(f"{spec.id} says it gives vectors of {spec.dimensions} dimensions")
    return spec
