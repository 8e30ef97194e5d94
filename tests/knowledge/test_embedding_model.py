"""The really built default model: the same model as the reference, in a process that never imports torch."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from functools import cache
from pathlib import Path
from uuid import uuid4

import numpy as np
import pytest
from django.conf import settings as django_settings
from pytest_django import Settings

from knowledge.embedding import ModelSpec, ModelUnusable, embed_documents, embed_query, is_ready, warm
from knowledge.embedding.building.parity import LEAST_MEAN_COSINE, sentences_for
from knowledge.embedding.built import Manifest, directory_of, read_manifest
from knowledge.embedding.runtime import LONGEST_TOKEN, QUERY_TOKENS, OnnxProvider, cut, head_and_tail
from knowledge.embedding.specs import E5_SMALL, MINILM

pytestmark = pytest.mark.model

PROJECT = Path(__file__).parents[2]


@cache
def built(name: str) -> tuple[Path, Manifest]:
    """Return a model of this machine, built by the product's own command where it is not there yet."""
    directory = directory_of(django_settings.KB_MODEL_DIR, name)
    if read_manifest(directory) is None:
        done = subprocess.run(
            [sys.executable, str(PROJECT / "manage.py"), "build_model", "--model", name],
            env={**os.environ, "KB_EMBEDDING_PROVIDER": "onnx"},
            capture_output=True,
            text=True,
            check=False,
            timeout=1800,
        )
        assert done.returncode == 0, done.stderr
    manifest = read_manifest(directory)
    assert manifest is not None
    return directory, manifest


@cache
def e5() -> OnnxProvider:
    directory, manifest = built(E5_SMALL.id)
    return OnnxProvider(directory, manifest.spec)


@pytest.fixture
def _served(settings: Settings) -> None:
    built(E5_SMALL.id)
    settings.KB_EMBEDDING_PROVIDER = "onnx"
    settings.KB_EMBEDDING_MODEL = E5_SMALL.id


def run_python(code: str, **environment: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "DJANGO_SETTINGS_MODULE": "kbplatform.settings", **environment},
        cwd=PROJECT,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.usefixtures("_served")
def test_it_works() -> None:
    warm()
    passages = embed_documents(
        [
            "Questions are answered from the knowledge base when the evidence reaches the threshold of 0.25.",
            "Trains to the coast leave every hour from platform four, also on Sundays.",
            "Boil the water, add the salt, then the rice, and leave it for eighteen minutes.",
        ]
    )

    questions = (
        "¿Cuál es el umbral de evidencia de la base de conocimiento?",
        "Как часто отправляются поезда на побережье?",
        "How long do I cook rice?",
    )
    found = [embed_query(uuid4(), question, timeout=30) for question in questions]

    assert is_ready()
    assert [int((passages @ vector).argmax()) for vector in found if vector is not None] == [0, 1, 2]


def test_it_is_the_model_that_the_manifest_describes() -> None:
    _directory, manifest = built(E5_SMALL.id)

    assert manifest.spec == E5_SMALL
    assert manifest.parity.mean >= LEAST_MEAN_COSINE


@pytest.mark.parametrize("spec", [E5_SMALL, MINILM], ids=lambda spec: spec.id)
def test_vectors_are_those_of_sentence_transformers(spec: ModelSpec) -> None:
    directory, manifest = built(spec.id)
    texts = [*sentences_for(manifest.spec.languages), "One more that the build has not seen."]
    code = (
        "import sys, json; from pathlib import Path; from knowledge.embedding.reference import *;"
        "from knowledge.embedding.built import read_manifest; home = Path(sys.stdin.readline().strip());"
        "model = SentenceTransformerProvider(home / 'st', read_manifest(home).spec);"
        "print(json.dumps(model.embed(json.loads(sys.stdin.readline()), role='document').tolist()))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        input=f"{directory}\n{json.dumps(texts)}\n",
        cwd=PROJECT,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    reference = np.array(json.loads(done.stdout.splitlines()[-1]), dtype=np.float32)

    cosines = (reference * OnnxProvider(directory, manifest.spec).embed(texts, role="document")).sum(axis=1)

    assert cosines.mean() >= LEAST_MEAN_COSINE
    assert cosines.min() >= 0.98


def test_serving_never_imports_torch() -> None:
    code = (
        "import sys, uuid, django; django.setup();"
        "from knowledge.embedding import embed_documents, embed_query, warm; warm();"
        "assert embed_query(uuid.uuid4(), 'a question', timeout=30) is not None; embed_documents(['a passage']);"
        "print([name for name in ('torch', 'transformers', 'sentence_transformers') if name in sys.modules])"
    )

    said = run_python(code, KB_EMBEDDING_PROVIDER="onnx", KB_EMBEDDING_MODEL=E5_SMALL.id)

    assert said.strip() == "[]"


def test_the_runtime_reports_nothing_to_its_maker(tmp_path: Path) -> None:
    built(E5_SMALL.id)
    code = "import django; django.setup(); from knowledge.embedding import embed_documents; embed_documents(['text'])"

    run_python(code, HOME=str(tmp_path), KB_EMBEDDING_PROVIDER="onnx", KB_EMBEDDING_MODEL=E5_SMALL.id)

    assert list(tmp_path.iterdir()) == []


def test_importing_the_door_loads_nothing_heavy() -> None:
    code = (
        "import sys, knowledge.embedding; heavy = ('torch', 'transformers', 'sentence_transformers',"
        "'onnxruntime', 'tokenizers'); print([name for name in heavy if name in sys.modules])"
    )

    assert run_python(code).strip() == "[]"


def test_order_is_kept_and_batches_do_not_matter() -> None:
    texts = [f"passage {number} " + "word " * (number % 7) for number in range(40)]

    together = e5().embed(texts, role="document")

    alone = np.concatenate([e5().embed([text], role="document") for text in texts[:5]])
    assert (together[:5] * alone).sum(axis=1).min() > 0.985  # int8 scales follow what is in the batch
    assert ((together[:5] @ alone.T).argmax(axis=1) == np.arange(5)).all()


def test_hostile_text_has_a_vector() -> None:
    texts = [
        "",
        "\0",
        "\ud800",
        "🙂" * 3_000,
        "x" * 100_000,
        "\u202e\ufffe\x01",
        " " * 9_000 + "a",
        "\x01" * 9_000,
        "日本語の文章",
    ]

    for role in ("query", "document"):
        vectors = e5().embed(texts, role="query" if role == "query" else "document")
        np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1.0, rtol=1e-5)


def test_a_long_question_is_read_at_head_and_tail() -> None:
    tokenizer = e5()._tokenizer
    text = "¿Dónde está el fallo? " + "registro de la máquina; " * 400 + "Error: falta la clave."

    kept = head_and_tail(tokenizer, text, tokens=100)

    assert kept.startswith("¿Dónde está el fallo?")
    assert kept.endswith("Error: falta la clave.")
    assert 90 <= len(tokenizer.encode(kept, add_special_tokens=False)) <= 104
    assert QUERY_TOKENS == 128


def test_a_huge_text_is_cut_before_it_is_tokenised() -> None:
    text = "x" * 3_000_000

    assert len(cut(e5()._tokenizer, text, spec=E5_SMALL, role="document")) == 512 * LONGEST_TOKEN
    assert len(cut(e5()._tokenizer, text, spec=E5_SMALL, role="query")) < 128 * LONGEST_TOKEN


def test_a_short_question_is_not_touched() -> None:
    assert head_and_tail(e5()._tokenizer, "short enough", tokens=100) == "short enough"


@pytest.mark.usefixtures("_served")
def test_a_damaged_model_is_refused(settings: Settings, tmp_path: Path) -> None:
    directory, _manifest = built(E5_SMALL.id)
    damaged = tmp_path / E5_SMALL.id / "onnx"
    damaged.mkdir(parents=True)
    (damaged.parent / "manifest.json").write_bytes((directory / "manifest.json").read_bytes())
    (damaged / "model.onnx").write_bytes((directory / "onnx" / "model.onnx").read_bytes()[:-1])
    settings.KB_MODEL_DIR = tmp_path

    with pytest.raises(ModelUnusable, match="not the file that was built"):
        warm()


def test_its_licence_stands_next_to_it() -> None:
    directory, _manifest = built(E5_SMALL.id)

    assert "MIT" in (directory / "st" / "NOTICE").read_text(encoding="utf-8")
