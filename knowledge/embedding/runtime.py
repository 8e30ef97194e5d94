"""The serving provider: an int8 ONNX graph on one thread, with onnxruntime and tokenizers alone."""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from knowledge.embedding.specs import EmbeddingFailed, ModelSpec, Role
from knowledge.embedding.vectors import Vectors, batches, readable, unit_rows

BATCH = 8
"""Texts a run of the graph: throughput hardly moves once sorted by length, memory grows with it."""

QUERY_TOKENS = 128
"""Tokens read of a question: its head and its tail. Bounds the time of a pasted log or file."""

LONGEST_TOKEN = 16
"""Characters looked at for each token a model reads; ordinary text has four."""


class OnnxProvider:
    """Embeds with a built model directory (`onnx/model.onnx` and `onnx/tokenizer.json`).

    One intra-op thread without spinning: two threads under contention take thirty times as long at p95.
    Safe to call from several threads. Only the tokenizer is locked (those of `tokenizers` are not promised to
    be thread-safe, a session is), so that a question does not wait for a batch of documents.
    """

    def __init__(self, directory: Path, spec: ModelSpec) -> None:
        os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
        from tokenizers import Tokenizer

        self.spec = spec
        self._tokenizing = threading.Lock()
        self._tokenizer: Any = Tokenizer.from_file(str(directory / "onnx" / "tokenizer.json"))
        self._session: Any = _session(directory / "onnx" / "model.onnx")

    def embed(self, texts: Sequence[str], *, role: Role) -> Vectors:
        """Vectors of `texts` in their order, [n, dimensions]. Raises EmbeddingFailed."""
        vectors = np.zeros((len(texts), self.spec.dimensions), dtype=np.float32)
        ready = [self._prefixed(text, role=role) for text in texts]
        for batch in batches(ready, size=BATCH):
            vectors[batch] = self._run([ready[position] for position in batch])
        return unit_rows(vectors, count=len(texts), dimensions=self.spec.dimensions)

    def _prefixed(self, text: str, *, role: Role) -> str:
        with self._tokenizing:
            return self.spec.prefix(role) + cut(self._tokenizer, text, spec=self.spec, role=role)

    def _run(self, texts: list[str]) -> Vectors:
        with self._tokenizing:
            encodings = self._tokenizer.encode_batch(texts)
        ids = np.array([encoding.ids for encoding in encodings], dtype=np.int64)
        mask = np.array([encoding.attention_mask for encoding in encodings], dtype=np.int64)
        try:
            (vectors,) = self._session.run(["vectors"], {"input_ids": ids, "attention_mask": mask})
        except Exception as error:  # onnxruntime's errors have no public base class
            raise EmbeddingFailed(f"{self.spec.id} could not embed the text: {error}") from error
        return np.asarray(vectors, dtype=np.float32)


def _session(file: Path) -> Any:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.inter_op_num_threads = 1
    options.enable_cpu_mem_arena = False  # it keeps the largest batch's memory for good
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    options.log_severity_level = 3
    return onnxruntime.InferenceSession(str(file), options, providers=["CPUExecutionProvider"])


def cut(tokenizer: Any, text: str, *, spec: ModelSpec, role: Role) -> str:
    """What is embedded of `text`, without its prefix; a tokenizer's time is bounded however long the text is."""
    text = readable(text)
    if role == "document":
        return text[: spec.max_tokens * LONGEST_TOKEN]
    room = QUERY_TOKENS - len(tokenizer.encode(spec.query_prefix))
    return head_and_tail(tokenizer, text, tokens=room)


def head_and_tail(tokenizer: Any, text: str, *, tokens: int) -> str:
    """`text`, or its first and last `tokens`/2 tokens when it has more. `tokenizer` is one of `tokenizers`.

    Reads at most 16 characters for every token that is kept, however long the text is.
    """
    text = text.strip()
    half, reach = tokens // 2, tokens * LONGEST_TOKEN // 2
    opening = tokenizer.encode(text[:reach], add_special_tokens=False)
    if len(text) <= reach and len(opening) <= tokens:
        return text
    tail = text[-reach:]
    closing = tokenizer.encode(tail, add_special_tokens=False)
    # Either may hold no token at all: characters that the tokenizer deletes.
    head_ends = max((end for _start, end in opening.offsets[:half]), default=0)
    tail_starts = min((start for start, _end in closing.offsets[-half:]), default=len(tail))
    return f"{text[:head_ends]} {tail[tail_starts:]}".strip() or "."
