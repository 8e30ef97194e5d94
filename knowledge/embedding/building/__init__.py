"""Build a model directory once per machine: fetch or unpack, export to int8 ONNX, compare, put in place."""

from __future__ import annotations

import fcntl
import json
import logging
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from knowledge.embedding.building.export import export, keep_full, quantise
from knowledge.embedding.building.parity import ParityMissed, background_cosine, parity, sentences_for
from knowledge.embedding.building.sources import fetch, source_of
from knowledge.embedding.built import (
    ONNX_FILES,
    Manifest,
    Parity,
    Precision,
    directory_of,
    identity_of,
    read_manifest,
    sha256_of,
    write_manifest,
)
from knowledge.embedding.reference import encode, load_model, spec_of
from knowledge.embedding.runtime import OnnxProvider
from knowledge.embedding.specs import ModelSpec, ModelUnusable, known_spec
from knowledge.embedding.vectors import Vectors

Progress = Callable[[str], None]


def build_model(model_dir: Path, name: str, *, torch: bool = True, progress: Progress = lambda step: None) -> Manifest:
    """Make sure the model `name` stands built in `model_dir`, and give its manifest. At once when it does.

    `name` is a known model, a name on the hub, or a sentence-transformers directory. Building takes about
    a minute and needs torch; the finished directory is moved into place in one step, so that a reader never
    sees half of one, and builders in other processes wait for this one. `progress` is told each step.
    Raises ModelUnusable or BuildFailed.
    """
    target = directory_of(model_dir, name)
    standing = _standing(target, name)
    if standing is not None:
        return standing
    if not torch:
        raise ModelUnusable(
            f"{identity_of(name)} is not built in {model_dir}, and building it needs torch. Run "
            f"manage.py build_model where torch is installed and copy that directory to {target}."
        )
    with _only_builder(model_dir), _quiet(), tempfile.TemporaryDirectory(prefix=WORKSHOP, dir=model_dir) as workshop:
        return _standing(target, name) or _build(Path(workshop), target, name, progress)


WORKSHOP = ".building-"


@contextmanager
def _only_builder(model_dir: Path) -> Iterator[None]:
    model_dir.mkdir(parents=True, exist_ok=True)
    with (model_dir / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        for left_by_a_killed_build in model_dir.glob(WORKSHOP + "*"):
            shutil.rmtree(left_by_a_killed_build)
        yield


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep the libraries' notes on every layer out of the log: what matters is told by `progress`."""
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        yield
    finally:
        logging.disable(before)


def _standing(target: Path, name: str) -> Manifest | None:
    manifest = read_manifest(target)
    if manifest is not None and manifest.source != source_of(name):
        raise ModelUnusable(f"{target} was built from {manifest.source}; move it away to build {name}")
    return manifest


def _build(workshop: Path, target: Path, name: str, progress: Progress) -> Manifest:
    started = time.monotonic()
    home = workshop / "model"
    fetch(name, into=home / "st", workshop=workshop, progress=progress)
    spec, precision, found = _export(home, name, progress)
    manifest = Manifest(
        spec=spec,
        source=source_of(name),
        pooling=_pooling(home / "st"),
        precision=precision,
        sha256={file: sha256_of(home / file) for file in (*ONNX_FILES, *_weights(home))},
        parity=found,
        seconds=round(time.monotonic() - started, 1),
    )
    write_manifest(home, manifest)
    if target.exists():  # without a manifest: not something we finished
        shutil.rmtree(target)
    home.rename(target)
    return manifest


def _weights(home: Path) -> list[str]:
    return [str(file.relative_to(home)) for file in sorted((home / "st").rglob("*.safetensors"))]


def _export(home: Path, name: str, progress: Progress) -> tuple[ModelSpec, Precision, Parity]:
    progress("loading the model")
    model = load_model(home / "st")
    spec = spec_of(model, name=name, identity=identity_of(name))
    prefixed = [spec.document_prefix + text for text in sentences_for(spec.languages)]
    reference = encode(model, prefixed, dimensions=spec.dimensions)
    if known_spec(name) is None:
        spec = replace(spec, background_cosine=round(background_cosine(reference), 3))
    progress("exporting it to ONNX")
    export(model, to=home / "onnx", max_tokens=spec.max_tokens)
    return (spec, *_as_small_as_faithful(home, spec, reference, progress))


def _as_small_as_faithful(
    home: Path, spec: ModelSpec, reference: Vectors, progress: Progress
) -> tuple[Precision, Parity]:
    """8-bit weights, unless they miss the parity floor: then the full graph serves, four times as large."""
    progress("rounding its weights to 8 bits")
    quantise(home / "onnx")
    try:
        progress("comparing it with the reference")
        precision: Precision = "int8"
        found = _compare(home, spec, reference)
    except ParityMissed as missed:
        progress(f"keeping the full weights: with 8 bits the {missed}")
        keep_full(home / "onnx")
        precision, found = "float32", _compare(home, spec, reference)
    (home / "onnx" / "full.onnx").unlink(missing_ok=True)
    return precision, found


def _compare(home: Path, spec: ModelSpec, reference: Vectors) -> Parity:
    return parity(reference, OnnxProvider(home, spec).embed(sentences_for(spec.languages), role="document"))


def _pooling(directory: Path) -> str:
    file = directory / "1_Pooling" / "config.json"
    config: dict[str, Any] = json.loads(file.read_text(encoding="utf-8")) if file.is_file() else {}
    modes = [key.removeprefix("pooling_mode_") for key, on in config.items() if on is True]
    return str(config.get("pooling_mode") or "+".join(modes) or "of the model's own modules")
