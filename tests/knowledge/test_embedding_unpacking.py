from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file
from tokenizers import Tokenizer

from knowledge.embedding.building.unpacking import (
    WeightFileUnreadable,
    dequantised,
    read_weight_file,
    tokenizer_json,
    write_sentence_transformer,
)
from tests.knowledge.weight_file import HIDDEN, LAYERS, quantised, tensors, weight_file


def test_it_works(tmp_path: Path) -> None:
    write_sentence_transformer(read_weight_file(weight_file()), tmp_path)

    config = json.loads((tmp_path / "config.json").read_text())
    assert (config["model_type"], config["hidden_size"], config["num_hidden_layers"]) == ("bert", HIDDEN, LAYERS)
    assert config["layer_norm_eps"] == 1e-12
    prompts = json.loads((tmp_path / "config_sentence_transformers.json").read_text())["prompts"]
    assert prompts == {"query": "query: ", "document": "passage: "}
    stored = load_file(tmp_path / "model.safetensors")
    assert stored["encoder.layer.1.intermediate.dense.weight"].shape == (64, 32)
    assert stored["encoder.layer.1.output.dense.weight"].shape == (32, 64)
    assert len(stored) == 5 + 16 * LAYERS


def test_weights_are_the_ones_in_the_file() -> None:
    read = read_weight_file(weight_file()).tensors
    written = {name: values for name, _kind, values in tensors()}

    np.testing.assert_array_equal(read["embeddings.position_embeddings.weight"], written["emb.pos"])
    np.testing.assert_array_equal(read["encoder.layer.0.attention.self.key.bias"], written["l0.k.b"])
    np.testing.assert_allclose(read["embeddings.word_embeddings.weight"], written["emb.word"], atol=0.1)


def test_a_block_is_read_low_nibbles_first() -> None:
    block = np.array([-7.0, *range(-7, 8), *range(-7, 8), 7.0], dtype=np.float32) * 0.5

    np.testing.assert_allclose(dequantised(quantised(block)), block)


def test_the_tokenizer_cuts_frames_and_normalises() -> None:
    tokenizer = Tokenizer.from_str(json.dumps(tokenizer_json(read_weight_file(weight_file()).vocabulary)))

    encoding = tokenizer.encode("query:\trotate\u00a0\u00a0key\x01s")

    assert encoding.tokens == ["<s>", "\u2581query", ":", "\u2581rotate", "\u2581key", "s", "</s>"]
    assert encoding.ids == [0, 8, 9, 6, 5, 7, 2]


def test_another_file_is_refused() -> None:
    with pytest.raises(WeightFileUnreadable, match="E5S1"):
        read_weight_file(b"GGUF" + weight_file()[4:])


@pytest.mark.parametrize("kept", [20, 60, 200, 700, -1])
def test_a_cut_file_is_refused(kept: int) -> None:
    with pytest.raises(WeightFileUnreadable):
        read_weight_file(weight_file()[:kept])


def test_other_block_sizes_are_refused() -> None:
    data = bytearray(weight_file())
    data[40:44] = (64).to_bytes(4, "little")

    with pytest.raises(WeightFileUnreadable, match="blocks of 64"):
        read_weight_file(bytes(data))
