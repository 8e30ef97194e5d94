"""Where a built model stands and what its manifest says, read without loading the model."""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from knowledge.embedding.specs import ModelSpec, ModelUnusable, known_spec

FORMAT = 1
"""Raised when a built directory of an older version can no longer be used."""

MANIFEST = "manifest.json"
ONNX_FILES = ("onnx/model.onnx", "onnx/tokenizer.json")

Precision = Literal["int8", "float32"]


class BuildFailed(Exception):
    """The embedding model could not be built."""


@dataclass(frozen=True, slots=True)
class Parity:
    """Cosines between the built model's vectors and the reference's, over our own sentences."""

    mean: float
    least: float
    sentences: int


@dataclass(frozen=True, slots=True)
class Manifest:
    """What was built: the model's spec, where it came from, the hashes of its files, and its parity."""

    spec: ModelSpec
    source: str
    pooling: str
    sha256: dict[str, str]
    parity: Parity
    seconds: float
    precision: Precision = "int8"


def identity_of(name: str) -> str:
    """The id of a known model, a hub name or a directory: a plain file name, stored with each vector."""
    known = known_spec(name)
    if known is not None:
        return known.id
    written = Path(name).resolve().name if Path(name).is_dir() else name.replace("/", "--")
    return re.sub(r"[^A-Za-z0-9._-]+", "-", written).strip(".-") or "model"


def directory_of(model_dir: Path, name: str) -> Path:
    """Where the built form of the model `name` stands below `model_dir`."""
    return model_dir / identity_of(name)


def read_manifest(directory: Path) -> Manifest | None:
    """The manifest of a built model, or None when nothing complete stands there.

    Raises ModelUnusable when it is of another format version or can't be read.
    """
    file = directory / MANIFEST
    if not file.is_file():
        return None
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
        if content.pop("format") != FORMAT:
            raise ModelUnusable(f"{directory} was built by another version: delete it and run manage.py build_model")
        return _manifest(content)
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise ModelUnusable(f"{file} can't be read ({error}): delete {directory} and build again") from error


def _manifest(content: dict[str, Any]) -> Manifest:
    languages = content["spec"].pop("languages")
    spec = ModelSpec(**content.pop("spec"), languages=None if languages is None else frozenset(languages))
    return Manifest(spec=spec, parity=Parity(**content.pop("parity")), **content)


def sha256_of(file: Path) -> str:
    """The file's sha256 in hex, read in blocks (0.1 s for 118 MB)."""
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()


def write_manifest(directory: Path, manifest: Manifest) -> None:
    """Write the manifest: the last file of a build, since its presence says that the model is complete."""
    (directory / MANIFEST).write_text(json.dumps(as_json(manifest), indent=2) + "\n", encoding="utf-8")


def as_json(manifest: Manifest) -> dict[str, Any]:
    """The manifest as plain JSON values."""
    content = asdict(manifest)
    languages = manifest.spec.languages
    content["spec"]["languages"] = None if languages is None else sorted(languages)
    return {"format": FORMAT, **content}
