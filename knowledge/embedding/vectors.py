"""Vectors as they are stored and compared: float32, one row a text, unit length, never NaN or all zero."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from knowledge.embedding.specs import EmbeddingFailed

Vectors = NDArray[np.float32]

SMALLEST_LENGTH = 1e-6


class VectorUnusable(EmbeddingFailed):
    """The model answered with a vector that can't be stored: wrong size, all zero, or not a number."""


def unit_rows(rows: NDArray[Any], *, count: int, dimensions: int) -> Vectors:
    """`rows` as float32 [count, dimensions] of unit length. Raises VectorUnusable for what can't be one."""
    vectors = np.asarray(rows, dtype=np.float32)
    if vectors.shape != (count, dimensions):
        raise VectorUnusable(f"the model gave vectors of shape {list(vectors.shape)}, expected [{count}, {dimensions}]")
    if not np.isfinite(vectors).all():
        raise VectorUnusable("the model gave a vector that is not a number")
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    if count and float(lengths.min()) < SMALLEST_LENGTH:
        raise VectorUnusable("the model gave a vector of zeros")
    return np.ascontiguousarray(vectors / lengths, dtype=np.float32)


def readable(text: str) -> str:
    """`text` as tokenizers take it: without NULs, lone surrogates replaced, and never quite empty."""
    cleaned = text.replace("\0", "").encode("utf-8", "replace").decode("utf-8")
    return cleaned if cleaned.strip() else "."


def batches(texts: Sequence[str], *, size: int) -> list[list[int]]:
    """Positions of `texts` in batches of near-equal length, longest first, so that padding is about 2 %."""
    order = sorted(range(len(texts)), key=lambda position: len(texts[position]), reverse=True)
    return [order[start : start + size] for start in range(0, len(order), size)]
