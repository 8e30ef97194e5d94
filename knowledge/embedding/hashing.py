"""A provider without a model: words and pieces of words hashed into a vector. For tests and demonstrations."""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace
from math import sqrt

import numpy as np

from knowledge.embedding.specs import HASH, ModelSpec, Role
from knowledge.embedding.vectors import Vectors, readable, unit_rows

SHORT = 3
"""Words up to this length are mostly grammar and count for little."""

WORD_WEIGHT = 1.0
SHORT_WORD_WEIGHT = 0.15
PIECE_WEIGHT = 0.35
PIECE_LENGTHS = (3, 4)


def hash_spec(dimensions: int) -> ModelSpec:
    """The spec of the hashing model of that size."""
    return replace(HASH, id=f"hash-{dimensions}", dimensions=dimensions)


class HashProvider:
    """Signed feature hashing (Weinberger and others, 2009) of words and character n-grams, unit length.

    The same text gives the same vector in every process and on every machine; texts that share words, or
    parts of words, are near one another. It knows nothing of meaning.
    """

    def __init__(self, spec: ModelSpec = HASH) -> None:
        self.spec = spec

    def embed(self, texts: Sequence[str], *, role: Role) -> Vectors:
        """Vectors of `texts` in their order, [n, dimensions]; both roles alike."""
        rows = np.zeros((len(texts), self.spec.dimensions), dtype=np.float32)
        for row, text in zip(rows, texts, strict=True):
            for feature, weight in _features(readable(text)).items():
                index, sign = _place(feature, self.spec.dimensions)
                row[index] += sign * weight
            if not row.any():  # every feature met its opposite, or there was none
                row[0] = 1.0
        return unit_rows(rows, count=len(texts), dimensions=self.spec.dimensions)


def _features(text: str) -> dict[str, float]:
    folded = unicodedata.normalize("NFKC", text).casefold()
    words = Counter(re.findall(r"[^\W_]+", folded)) or Counter([folded.strip()])
    weights: defaultdict[str, float] = defaultdict(float)
    for word, times in words.items():
        weights["w" + word] += (SHORT_WORD_WEIGHT if len(word) <= SHORT else WORD_WEIGHT) * sqrt(times)
        for piece in _pieces(word):
            weights["p" + piece] += PIECE_WEIGHT * sqrt(times)
    return weights


def _pieces(word: str) -> Iterator[str]:
    framed = f"<{word}>"
    if len(word) > SHORT:
        for length in PIECE_LENGTHS:
            yield from (framed[start : start + length] for start in range(len(framed) - length + 1))


def _place(feature: str, dimensions: int) -> tuple[int, float]:
    digest = hashlib.blake2b(feature.encode("utf-8"), digest_size=8).digest()
    number = int.from_bytes(digest, "big")
    return (number >> 1) % dimensions, 1.0 if number & 1 else -1.0
