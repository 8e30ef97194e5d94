"""Writes a tiny model in the 4-bit weight file's format, so that reading it can be tested without the real one."""

from __future__ import annotations

import struct
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

HIDDEN, LAYERS, HEADS, FEED_FORWARD, VOCABULARY, POSITIONS = 32, 2, 2, 64, 12, 64
PIECES = ["<s>", "<pad>", "</s>", "<unk>", "\u2581", "\u2581key", "\u2581rotate", "s", "\u2581query", ":", "<mask>"]
SCORES = [0.0, 0.0, 0.0, 0.0, -4.0, -2.0, -2.5, -3.0, -2.2, -2.1, 0.0]
REWRITTEN = {"\x01": "", "\t": " ", "\u00a0": " ", "\ufb01": "fi"}


def quantised(values: NDArray[np.float32]) -> bytes:
    """Q4_0: blocks of 32, a float16 scale, low nibbles first."""
    blocks = values.reshape(-1, 32)
    scales = (np.abs(blocks).max(axis=1) / 7).astype("<f2")
    numbers = np.clip(np.round(blocks / scales.astype(np.float32)[:, None]) + 8, 0, 15).astype(np.uint8)
    packed = numbers[:, :16] | (numbers[:, 16:] << 4)
    return b"".join(scale.tobytes() + row.tobytes() for scale, row in zip(scales, packed, strict=True))


def tensors() -> Iterator[tuple[str, int, NDArray[np.float32]]]:
    """(name, kind, values): kind 1 is stored in 4 bits, kind 0 as float32."""
    random = np.random.default_rng(5)

    def weights(*shape: int) -> NDArray[np.float32]:
        return random.normal(0, 0.3, shape).astype(np.float32)

    ones, zeros = np.ones(HIDDEN, dtype=np.float32), np.zeros(HIDDEN, dtype=np.float32)
    yield "emb.word", 1, weights(VOCABULARY, HIDDEN)
    yield "emb.pos", 0, weights(POSITIONS, HIDDEN)
    yield "emb.type", 0, weights(2, HIDDEN)
    yield "emb.ln.w", 0, ones
    yield "emb.ln.b", 0, zeros
    for layer in range(LAYERS):
        for part, rows, columns in (
            *(("q", HIDDEN, HIDDEN), ("k", HIDDEN, HIDDEN), ("v", HIDDEN, HIDDEN), ("ao", HIDDEN, HIDDEN)),
            *(("fi", FEED_FORWARD, HIDDEN), ("fo", HIDDEN, FEED_FORWARD)),
        ):
            yield f"l{layer}.{part}.w", 1, weights(rows, columns)
            yield f"l{layer}.{part}.b", 0, weights(rows)
        for norm in ("aln", "oln"):
            yield f"l{layer}.{norm}.w", 0, ones
            yield f"l{layer}.{norm}.b", 0, zeros


def weight_file() -> bytes:
    """The whole file."""
    sizes = (HIDDEN, LAYERS, HEADS, FEED_FORWARD, VOCABULARY, POSITIONS, 2)
    head = b"E5S1\x01\0\0\0" + struct.pack("<7ifi", *sizes, 1e-12, 32) + _tokenizer() + _rewritten()
    named = list(tensors())
    raw = [quantised(values) if kind else values.tobytes() for _name, kind, values in named]
    size = len(head) + 4 + sum(2 + len(name) + 21 for name, _kind, _values in named)
    table = struct.pack("<i", len(named))
    for (name, kind, values), stored in zip(named, raw, strict=True):
        table += (
            struct.pack("<H", len(name)) + name.encode() + struct.pack("<BIQQ", kind, values.size, size, len(stored))
        )
        size += len(stored)
    return head + table + b"".join(raw)


def _tokenizer() -> bytes:
    words = [piece.encode() for piece in PIECES]
    offsets = np.cumsum([0, *(len(word) for word in words)]).astype("<u4")
    counts = struct.pack("<5iQ", len(words), 0, 2, 1, 3, int(offsets[-1]))
    return counts + offsets.tobytes() + np.array(SCORES, dtype="<f4").tobytes() + b"".join(words)


def _rewritten() -> bytes:
    entries = b"".join(
        struct.pack(f"<IB{len(to)}I", ord(character), len(to), *map(ord, to)) for character, to in REWRITTEN.items()
    )
    return struct.pack("<iI", len(REWRITTEN), len(entries)) + entries
