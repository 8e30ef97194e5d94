from __future__ import annotations

import subprocess
import sys

import numpy as np

from knowledge.embedding.building.parity import background_cosine, sentences_for
from knowledge.embedding.hashing import HashProvider, hash_spec


def test_it_works() -> None:
    vectors = HashProvider().embed(["rotate the access key", "rotate an access key", "boil water"], role="document")

    assert vectors.shape == (3, 384)
    assert vectors[0] @ vectors[1] > 0.8
    assert vectors[0] @ vectors[2] < 0.2


def test_vectors_have_unit_length() -> None:
    vectors = HashProvider().embed(list(sentences_for(None)), role="document")

    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1.0, rtol=1e-5)


def test_unrelated_texts_are_as_far_apart_as_the_spec_says() -> None:
    vectors = HashProvider().embed(list(sentences_for(None)), role="document")

    assert abs(background_cosine(vectors) - HashProvider().spec.background_cosine) < 0.05


def test_other_forms_of_a_word_are_near() -> None:
    one, other, foreign = HashProvider().embed(["резервная копия", "резервные копии", "старый мост"], role="query")

    assert one @ other > 0.35
    assert one @ other > one @ foreign + 0.3


def test_text_without_words_still_has_a_vector() -> None:
    vectors = HashProvider().embed(["", "\0", "🙂", "!!!", "\ud800"], role="query")

    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1.0, rtol=1e-5)


def test_another_process_gives_the_same_vectors() -> None:
    code = (
        "from knowledge.embedding.hashing import HashProvider;"
        "print(HashProvider().embed(['same everywhere'], role='query').tobytes().hex())"
    )

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert done.stdout.strip() == HashProvider().embed(["same everywhere"], role="query").tobytes().hex()


def test_a_model_of_another_size_is_another_model() -> None:
    large = HashProvider(hash_spec(768))

    assert large.spec.id == "hash-768"
    assert large.embed(["a word"], role="query").shape == (1, 768)
