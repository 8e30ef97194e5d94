"""`manage.py build_model` in its own process, as it is run: it loads torch, which the tests' process must not."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from django.conf import settings

from knowledge.embedding.building.parity import LEAST_MEAN_COSINE, ParityMissed, parity, sentences_for
from knowledge.embedding.building.unpacking import read_weight_file, write_sentence_transformer
from knowledge.embedding.built import directory_of, identity_of, read_manifest
from knowledge.embedding.runtime import OnnxProvider
from knowledge.embedding.specs import ModelUnusable
from tests.knowledge.weight_file import HIDDEN, weight_file

MANAGE = Path(__file__).parents[2] / "manage.py"


def build_model(model_dir: Path, *arguments: str, provider: str = "onnx") -> subprocess.CompletedProcess[str]:
    environment = {
        **os.environ,
        "KB_MODEL_DIR": str(model_dir),
        "KB_EMBEDDING_PROVIDER": provider,
        "HF_HUB_OFFLINE": "1",
    }
    command = [sys.executable, str(MANAGE), "build_model", *arguments]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=300)


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A sentence-transformers directory with a random encoder of two layers."""
    directory = tmp_path_factory.mktemp("models") / "tiny model"
    write_sentence_transformer(read_weight_file(weight_file()), directory)
    return directory


@pytest.fixture(scope="module")
def built(tiny: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The model directory after a build."""
    model_dir = tmp_path_factory.mktemp("built")
    (model_dir / ".building-left").mkdir()
    done = build_model(model_dir, "--model", str(tiny), "--json")
    assert done.returncode == 0, done.stderr
    (model_dir / "said.json").write_text(done.stdout)
    (model_dir / "steps.txt").write_text(done.stderr)
    return model_dir


def test_it_works(built: Path) -> None:
    manifest = read_manifest(built / "tiny-model")

    assert manifest is not None
    assert (manifest.spec.id, manifest.spec.dimensions, manifest.spec.max_tokens) == ("tiny-model", HIDDEN, 64)
    assert (manifest.spec.query_prefix, manifest.spec.document_prefix) == ("query: ", "passage: ")
    assert manifest.parity.mean >= LEAST_MEAN_COSINE
    assert manifest.pooling == "mean_tokens"
    assert sorted(manifest.sha256) == ["onnx/model.onnx", "onnx/tokenizer.json", "st/model.safetensors"]
    vectors = OnnxProvider(built / "tiny-model", manifest.spec).embed(["rotate keys", "rotate keys"], role="document")
    np.testing.assert_allclose(vectors[0] @ vectors[1], 1.0, rtol=1e-5)


def test_steps_are_shown_and_json_is_alone_on_the_standard_output(built: Path) -> None:
    said = json.loads((built / "said.json").read_text())

    assert said["directory"] == str(built / "tiny-model")
    assert said["spec"]["id"] == "tiny-model"
    steps = (built / "steps.txt").read_text().splitlines()
    assert any("tiny-model: exporting it to ONNX" in step for step in steps)
    assert [step for step in steps if "tiny-model: " not in step] == []


def test_nothing_but_the_model_is_left(built: Path) -> None:
    assert {path.name for path in built.iterdir() if path.is_dir()} == {"tiny-model"}
    assert sorted(path.name for path in (built / "tiny-model" / "onnx").iterdir()) == ["model.onnx", "tokenizer.json"]


def test_a_built_model_is_taken_as_it_is_and_without_torch(built: Path, tiny: Path) -> None:
    before = (built / "tiny-model" / "manifest.json").stat().st_mtime_ns

    done = build_model(built, "--model", str(tiny), "--no-torch")

    assert done.returncode == 0, done.stderr
    assert "tiny-model is built" in done.stdout
    assert (built / "tiny-model" / "manifest.json").stat().st_mtime_ns == before


def test_another_directory_of_the_same_name_is_not_taken_for_it(built: Path, tmp_path: Path) -> None:
    (tmp_path / "tiny model").mkdir()

    done = build_model(built, "--model", str(tmp_path / "tiny model"))

    assert done.returncode == 1
    assert "was built from" in done.stderr


def test_without_torch_a_missing_model_says_what_to_do(tmp_path: Path) -> None:
    done = build_model(tmp_path, "--no-torch")

    assert done.returncode == 1
    assert f"copy that directory to {tmp_path / 'multilingual-e5-small'}" in done.stderr
    assert "Traceback" not in done.stderr


def test_the_hashing_provider_needs_no_model(tmp_path: Path) -> None:
    done = build_model(tmp_path, "--json", provider="hash")

    assert json.loads(done.stdout) == {"provider": "hash", "built": None}
    assert list(tmp_path.iterdir()) == []


def test_a_model_that_is_nowhere_is_named(tmp_path: Path) -> None:
    done = build_model(tmp_path, "--model", "nobody/no-such-model")

    assert done.returncode == 1
    assert "nobody/no-such-model is neither a known model nor a directory" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_model_with_python_of_its_own_is_refused(tiny: Path, tmp_path: Path) -> None:
    theirs = tmp_path / "theirs"
    write_sentence_transformer(read_weight_file(weight_file()), theirs)
    modules = json.loads((theirs / "modules.json").read_text())
    modules[0]["type"] = "custom_st.Transformer"
    (theirs / "modules.json").write_text(json.dumps(modules))

    done = build_model(tmp_path / "built", "--model", str(theirs))

    assert done.returncode == 1
    assert "brings its own Python (custom_st.Transformer)" in done.stderr


def test_an_encoder_that_only_its_own_python_knows_is_refused(tmp_path: Path) -> None:
    theirs = tmp_path / "theirs"
    write_sentence_transformer(read_weight_file(weight_file()), theirs)
    config = {"model_type": "their_own", "auto_map": {"AutoModel": "modeling.TheirModel"}}
    (theirs / "config.json").write_text(json.dumps(config))

    done = build_model(tmp_path / "built", "--model", str(theirs))

    assert done.returncode == 1
    assert "transformers has no 'their_own' built in" in done.stderr


@pytest.mark.parametrize(
    ("name", "identity"),
    [
        ("intfloat/multilingual-e5-small", "multilingual-e5-small"),
        ("someone/Some Model", "someone--Some-Model"),
        ("../../etc", "etc"),
        ("???", "model"),
    ],
)
def test_a_model_name_becomes_a_plain_folder_name(
    name: str, identity: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)

    assert identity_of(name) == identity
    assert directory_of(Path("/models"), name).parent == Path("/models")


def test_an_unreadable_manifest_says_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "manifest.json").write_text("{")

    with pytest.raises(ModelUnusable, match="build again"):
        read_manifest(tmp_path)


def test_a_manifest_of_another_version_says_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "manifest.json").write_text('{"format": 99}')

    with pytest.raises(ModelUnusable, match="another version"):
        read_manifest(tmp_path)


def test_vectors_too_far_from_the_reference_are_refused() -> None:
    reference = np.eye(4, dtype=np.float32)
    turned = (reference + 0.2) / np.linalg.norm(reference + 0.2, axis=1, keepdims=True)

    assert parity(reference, reference).least == 1.0
    with pytest.raises(ParityMissed, match=str(LEAST_MEAN_COSINE)):
        parity(reference, turned.astype(np.float32))


def test_sentences_are_in_the_languages_of_the_model_and_code() -> None:
    english = sentences_for(frozenset({"en"}))

    assert set(english) < set(sentences_for(None))
    assert any("SELECT" in text for text in english)
    assert not any("¿" in text for text in english)


def test_the_suite_never_loads_torch() -> None:
    assert settings.KB_EMBEDDING_PROVIDER == "hash"
    assert "torch" not in sys.modules
