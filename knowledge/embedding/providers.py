"""Which provider the settings choose, loaded once per process."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Protocol

from django.conf import settings

from knowledge.embedding.built import ONNX_FILES, directory_of, read_manifest, sha256_of
from knowledge.embedding.hashing import HashProvider, hash_spec
from knowledge.embedding.remote import RemoteProvider, can_be_asked_for_fewer, remote_spec
from knowledge.embedding.specs import HASH, ModelSpec, ModelUnusable, Role, checked
from knowledge.embedding.vectors import Vectors


class Provider(Protocol):
    """Turns texts into vectors with one model; safe to call from several threads."""

    spec: ModelSpec

    def embed(self, texts: Sequence[str], *, role: Role) -> Vectors:
        """Unit vectors, float32 [n, spec.dimensions], in the order of `texts`. Raises EmbeddingFailed."""
        ...


@dataclass(frozen=True, slots=True)
class Choice:
    """A provider and a model with everything that loading them depends on."""

    provider: str
    model: str
    dimensions: int | None
    base_url: str
    model_dir: Path


def chosen(model: str | None = None) -> Choice:
    """What the settings choose, with another model when `model` names one."""
    return Choice(
        provider=settings.KB_EMBEDDING_PROVIDER,
        model=model or settings.KB_EMBEDDING_MODEL,
        dimensions=getattr(settings, "KB_EMBEDDING_DIMENSIONS", None) or None,
        base_url=settings.KB_EMBEDDING_BASE_URL,
        model_dir=Path(settings.KB_MODEL_DIR),
    )


_loaded: dict[Choice, Provider] = {}
_loading = threading.Lock()


def provider(model: str | None = None) -> Provider:
    """The configured provider, loaded at the first call (about 2 s for e5). `model` asks for another model.

    Raises ModelUnusable when the settings name a model that can't be used, saying why.
    """
    choice = chosen(model)
    found = _loaded.get(choice)
    if found is None:
        with _loading:
            found = _loaded.get(choice) or _load(choice)
            _loaded[choice] = found
    return found


def current_spec(model: str | None = None) -> ModelSpec:
    """The configured model's spec, without loading the model. Raises ModelUnusable as `provider` does."""
    return _spec(chosen(model))


def warm() -> None:
    """Load the configured model and embed once, so that the first question does not pay for it."""
    provider().embed(["ready"], role="query")


def is_ready() -> bool:
    """Whether the configured model is loaded."""
    return chosen() in _loaded


@lru_cache(maxsize=32)
def _spec(choice: Choice) -> ModelSpec:
    if choice.provider == "hash":
        return checked(hash_spec(_hash_dimensions(choice)))
    if choice.provider == "openai":
        return remote_spec(choice.model, dimensions=choice.dimensions)
    manifest = read_manifest(directory_of(choice.model_dir, choice.model))
    if manifest is None:
        raise ModelUnusable(
            f"the embedding model {choice.model} is not built in {choice.model_dir}: run manage.py build_model"
        )
    return checked(manifest.spec)


def _hash_dimensions(choice: Choice) -> int:
    kind, _, size = choice.model.partition("-")
    if kind == "hash" and size.isdecimal():
        return int(size)
    return choice.dimensions or HASH.dimensions


def _load(choice: Choice) -> Provider:
    spec = _spec(choice)
    directory = directory_of(choice.model_dir, choice.model)
    if choice.provider == "hash":
        return HashProvider(spec)
    if choice.provider == "openai":
        return _remote(choice, spec)
    if choice.provider == "sentence-transformers":
        from knowledge.embedding.reference import SentenceTransformerProvider

        return SentenceTransformerProvider(directory / "st", spec)
    return _served(directory, spec)


def _served(directory: Path, spec: ModelSpec) -> Provider:
    from knowledge.embedding.runtime import OnnxProvider

    manifest = read_manifest(directory)
    for file in ONNX_FILES:
        if manifest is None or sha256_of(directory / file) != manifest.sha256.get(file):
            raise ModelUnusable(f"{directory / file} is not the file that was built: delete {directory}")
    return OnnxProvider(directory, spec)


def _remote(choice: Choice, spec: ModelSpec) -> Provider:
    return RemoteProvider(
        spec,
        model=choice.model,
        base_url=choice.base_url,
        api_key=settings.KB_EMBEDDING_API_KEY,
        ask_for_dimensions=can_be_asked_for_fewer(choice.model),
    )
