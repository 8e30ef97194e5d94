"""The reference provider: the model as sentence-transformers runs it. Needs torch; never in a web process."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from knowledge.embedding.runtime import cut
from knowledge.embedding.specs import EmbeddingFailed, ModelSpec, ModelUnusable, Role, checked, known_spec
from knowledge.embedding.vectors import Vectors, unit_rows

BATCH = 16


class SentenceTransformerProvider:
    """Embeds with a sentence-transformers directory on the CPU. The first import costs 6 CPU seconds."""

    def __init__(self, directory: Path, spec: ModelSpec) -> None:
        self.spec = spec
        self._lock = threading.Lock()
        self._model: Any = load_model(directory)
        self._model.max_seq_length = spec.max_tokens

    def embed(self, texts: Sequence[str], *, role: Role) -> Vectors:
        """Vectors of `texts` in their order, [n, dimensions]. Raises EmbeddingFailed."""
        if not texts:
            return np.zeros((0, self.spec.dimensions), dtype=np.float32)
        with self._lock:
            tokenizer = self._model.tokenizer.backend_tokenizer
            prefix = self.spec.prefix(role)
            prefixed = [prefix + cut(tokenizer, text, spec=self.spec, role=role) for text in texts]
            return encode(self._model, prefixed, dimensions=self.spec.dimensions)


def encode(model: Any, texts: list[str], *, dimensions: int) -> Vectors:
    """Unit vectors of texts that carry their prefix already. Raises EmbeddingFailed."""
    try:
        # An empty prompt, or the directory's default prompt would be put before our own prefix.
        rows = model.encode(texts, prompt="", batch_size=BATCH, convert_to_numpy=True, show_progress_bar=False)
    except RuntimeError as error:
        raise EmbeddingFailed(f"the model could not embed the text: {error}") from error
    return unit_rows(rows, count=len(texts), dimensions=dimensions)


def load_model(directory: Path) -> Any:
    """A SentenceTransformer from files on disk. Raises ModelUnusable, also where it needs code of its own."""
    refuse_remote_code(directory)
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    import torch
    from sentence_transformers import SentenceTransformer
    from transformers.utils import logging

    torch.set_num_threads(1)
    quiet: Any = logging
    quiet.set_verbosity_error()  # it reports the unused pooler of every BERT as missing
    quiet.disable_progress_bar()
    try:
        return SentenceTransformer(
            str(directory),
            device="cpu",
            trust_remote_code=False,
            local_files_only=True,
            model_kwargs={"use_safetensors": True, "attn_implementation": "eager"},
        ).eval()
    except (OSError, ValueError, KeyError, ImportError) as error:
        raise ModelUnusable(f"{directory.name} is no usable sentence-transformers model: {error}") from error


def refuse_remote_code(directory: Path) -> None:
    """Raise ModelUnusable when loading the model would run Python that came with it."""
    modules = _json(directory / "modules.json", default=[])
    own = [str(m.get("type")) for m in modules if not str(m.get("type")).startswith("sentence_transformers.")]
    if own:
        raise ModelUnusable(f"{directory.name} brings its own Python ({own[0]}), which is never run here")
    config = _json(directory / "config.json", default={})
    if config.get("auto_map") and not _is_built_in(str(config.get("model_type"))):
        raise ModelUnusable(
            f"{directory.name} brings its own Python (auto_map in config.json), and transformers has no "
            f"'{config.get('model_type')}' built in. Serve it over HTTP and set KB_EMBEDDING_PROVIDER=openai."
        )


def _json(file: Path, *, default: Any) -> Any:
    return json.loads(file.read_text(encoding="utf-8")) if file.is_file() else default


def _is_built_in(model_type: str) -> bool:
    from transformers import CONFIG_MAPPING

    return model_type in CONFIG_MAPPING


def spec_of(model: Any, *, name: str, identity: str) -> ModelSpec:
    """The spec of a loaded model: the known one, or what its own directory says (prompts, sizes).

    Raises ModelUnusable when its vectors are too large to be stored.
    """
    dimensions = int(model.get_embedding_dimension())
    known = known_spec(name)
    if known is not None:
        return checked(known)
    prompts = {key: str(text) for key, text in (model.prompts or {}).items()}
    return checked(
        ModelSpec(
            id=identity,
            dimensions=dimensions,
            max_tokens=int(model.max_seq_length or 512),
            query_prefix=prompts.get("query", ""),
            document_prefix=prompts.get("document") or prompts.get("passage", ""),
        )
    )
