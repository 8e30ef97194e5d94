from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from knowledge.embedding.specs import E5_SMALL, KNOWN, MAX_DIMENSIONS, ModelUnusable, checked, known_spec
from knowledge.embedding.vectors import VectorUnusable, batches, readable, unit_rows


def test_it_works() -> None:
    spec = known_spec("multilingual-e5-small")

    assert spec is E5_SMALL
    assert spec.prefix("query") == "query: "
    assert spec.prefix("document") == "passage: "


@pytest.mark.parametrize("name", ["sentence-transformers/all-MiniLM-L6-v2", "all-MiniLM-L6-v2"])
def test_a_model_is_known_by_its_short_name_and_its_name_on_the_hub(name: str) -> None:
    spec = known_spec(name)

    assert spec is not None
    assert (spec.id, spec.dimensions, spec.languages) == ("all-MiniLM-L6-v2", 384, frozenset({"en"}))


def test_nomic_has_its_own_prefixes() -> None:
    spec = known_spec("nomic-ai/nomic-embed-text-v1.5")

    assert spec is not None
    assert (spec.dimensions, spec.prefix("query")) == (768, "search_query: ")
    assert spec.prefix("document") == "search_document: "


def test_every_known_model_can_be_stored() -> None:
    assert max(spec.dimensions for spec in KNOWN.values()) <= MAX_DIMENSIONS


def test_an_unknown_model_is_not_guessed() -> None:
    assert known_spec("someone/else") is None


@pytest.mark.parametrize("dimensions", [0, MAX_DIMENSIONS + 1])
def test_a_size_that_can_not_be_stored_is_refused(dimensions: int) -> None:
    with pytest.raises(ModelUnusable, match=str(dimensions)):
        checked(replace(E5_SMALL, dimensions=dimensions))


def test_rows_become_unit_float32() -> None:
    rows = unit_rows(np.array([[3.0, 4.0], [0.0, -2.0]]), count=2, dimensions=2)

    np.testing.assert_allclose(rows, [[0.6, 0.8], [0.0, -1.0]])
    assert rows.dtype == np.float32


@pytest.mark.parametrize("row", [[0.0, 0.0], [float("nan"), 1.0], [float("inf"), 1.0]])
def test_a_row_that_points_nowhere_is_refused(row: list[float]) -> None:
    with pytest.raises(VectorUnusable):
        unit_rows(np.array([[1.0, 1.0], row]), count=2, dimensions=2)


def test_text_is_made_readable() -> None:
    assert readable("a\0b") == "ab"
    assert readable("a\udfffb") == "a?b"
    assert readable(" \0 ") == "."


def test_batches_hold_every_text_once_and_group_equal_lengths() -> None:
    texts = ["x" * length for length in (5, 1, 4, 2, 3)]

    assert batches(texts, size=2) == [[0, 2], [4, 3], [1]]
