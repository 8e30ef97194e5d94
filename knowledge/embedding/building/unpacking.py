"""Turn the 4-bit weight file of multilingual-e5-small into an ordinary sentence-transformers directory.

The file is read as plain data. It holds a header, a Unigram tokenizer, a table of code points to
normalise, and the tensors of a BERT encoder, little-endian throughout; `docs/embedding.md` has the layout.
"""

from __future__ import annotations

import json
import struct
import unicodedata
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from knowledge.embedding.built import BuildFailed

Floats = NDArray[np.float32]

MAGIC = b"E5S1"
BLOCK = 32  # weights that share one scale in the Q4_0 format
BLOCK_BYTES = 2 + BLOCK // 2
SPACE = "\u2581"  # how a Unigram vocabulary writes the space before a word

LAYER_NAMES = {
    "q": "attention.self.query",
    "k": "attention.self.key",
    "v": "attention.self.value",
    "ao": "attention.output.dense",
    "aln": "attention.output.LayerNorm",
    "fi": "intermediate.dense",
    "fo": "output.dense",
    "oln": "output.LayerNorm",
}
EMBEDDING_NAMES = {
    "emb.word": "embeddings.word_embeddings.weight",
    "emb.pos": "embeddings.position_embeddings.weight",
    "emb.type": "embeddings.token_type_embeddings.weight",
    "emb.ln.w": "embeddings.LayerNorm.weight",
    "emb.ln.b": "embeddings.LayerNorm.bias",
}


class WeightFileUnreadable(BuildFailed):
    """The weight file is not in the format we know, or is cut short."""


@dataclass(frozen=True, slots=True)
class Shape:
    """Sizes of the encoder, as the file's header gives them."""

    hidden: int
    layers: int
    heads: int
    feed_forward: int
    vocabulary: int
    positions: int
    types: int
    epsilon: float


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """The Unigram tokenizer: pieces with their scores, the special ids, and the code points it rewrites."""

    pieces: tuple[tuple[str, float], ...]
    bos: int
    eos: int
    pad: int
    unknown: int
    rewritten: dict[str, str]


@dataclass(frozen=True, slots=True)
class WeightFile:
    """Everything the file holds; `tensors` carries the names of a BERT checkpoint."""

    shape: Shape
    vocabulary: Vocabulary
    tensors: dict[str, Floats]


class _Cursor:
    """Reads packed little-endian fields from the front, in order."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 0

    def fields(self, layout: str) -> tuple[float, ...]:
        values = struct.unpack_from("<" + layout, self.data, self.at)
        self.at += struct.calcsize("<" + layout)
        return values

    def whole(self, layout: str) -> tuple[int, ...]:
        return tuple(int(value) for value in self.fields(layout))

    def take(self, count: int) -> bytes:
        if self.at + count > len(self.data):
            raise WeightFileUnreadable("the weight file ends before its data")
        self.at += count
        return self.data[self.at - count : self.at]


def read_weight_file(data: bytes) -> WeightFile:
    """Parse the whole file (72 MB gives 470 MB of float32).

    Raises WeightFileUnreadable for another format or a cut file.
    """
    if data[:4] != MAGIC:
        raise WeightFileUnreadable("the weight file does not start with E5S1")
    cursor = _Cursor(data)
    cursor.take(8)
    try:
        shape = _read_shape(cursor)
        vocabulary = _read_vocabulary(cursor)
        return WeightFile(shape=shape, vocabulary=vocabulary, tensors=_read_tensors(cursor, shape))
    except (struct.error, ValueError, KeyError) as error:
        raise WeightFileUnreadable(f"the weight file can't be read: {error}") from error


def _read_shape(cursor: _Cursor) -> Shape:
    sizes = cursor.whole("7i")
    (epsilon,) = cursor.fields("f")
    (block,) = cursor.whole("i")
    if block != BLOCK:
        raise WeightFileUnreadable(f"weights come in blocks of {block}, we know {BLOCK}")
    hidden, layers, heads, feed_forward, vocabulary, positions, types = sizes
    rounded = float(f"{epsilon:.6g}")  # 1e-12 as float32 is 9.99999996e-13
    return Shape(hidden, layers, heads, feed_forward, vocabulary, positions, types, rounded)


def _read_vocabulary(cursor: _Cursor) -> Vocabulary:
    count, bos, eos, pad, unknown = cursor.whole("5i")
    (length,) = cursor.whole("Q")
    offsets = cursor.whole(f"{count + 1}I")
    scores = cursor.fields(f"{count}f")
    blob = cursor.take(length)
    words = (blob[offsets[i] : offsets[i + 1]].decode("utf-8") for i in range(count))
    return Vocabulary(tuple(zip(words, scores, strict=True)), bos, eos, pad, unknown, _read_rewritten(cursor))


def _read_rewritten(cursor: _Cursor) -> dict[str, str]:
    count, _length = cursor.whole("iI")
    table: dict[str, str] = {}
    for _ in range(count):
        code, replaced = cursor.whole("IB")
        table[chr(code)] = "".join(map(chr, cursor.whole(f"{replaced}I")))
    return table


def _read_tensors(cursor: _Cursor, shape: Shape) -> dict[str, Floats]:
    (count,) = cursor.whole("i")
    tensors: dict[str, Floats] = {}
    for _ in range(count):
        (length,) = cursor.whole("H")
        name = cursor.take(length).decode("ascii")
        kind, size, offset, stored = cursor.whole("BIQQ")
        values = _decoded(cursor.data[offset : offset + stored], kind=kind, size=size)
        tensors[_checkpoint_name(name)] = values.reshape(_rows_and_columns(name, size=size, shape=shape))
    return tensors


def _decoded(raw: bytes, *, kind: int, size: int) -> Floats:
    values = np.frombuffer(raw, dtype="<f4").astype(np.float32) if kind == 0 else dequantised(raw)
    if values.size != size:
        raise WeightFileUnreadable("a tensor has another size than the file says")
    return values


def dequantised(raw: bytes) -> Floats:
    """Q4_0 to float32: per block a float16 scale, then 16 bytes (low nibbles weights 0-15, high 16-31)."""
    blocks = np.frombuffer(raw, dtype=np.uint8).reshape(-1, BLOCK_BYTES)
    scales = blocks[:, :2].copy().view("<f2").astype(np.float32)
    nibbles = np.concatenate([blocks[:, 2:] & 0x0F, blocks[:, 2:] >> 4], axis=1)
    return ((nibbles.astype(np.float32) - 8.0) * scales).reshape(-1)


def _checkpoint_name(name: str) -> str:
    if name in EMBEDDING_NAMES:
        return EMBEDDING_NAMES[name]
    layer, part, kind = name.split(".")
    return f"encoder.layer.{int(layer[1:])}.{LAYER_NAMES[part]}.{'weight' if kind == 'w' else 'bias'}"


def _rows_and_columns(name: str, *, size: int, shape: Shape) -> tuple[int, ...]:
    if name.startswith("emb.ln") or name.endswith((".b", "ln.w")):
        return (size,)
    return (
        (size // shape.feed_forward, shape.feed_forward)
        if name.endswith(".fo.w")
        else (size // shape.hidden, shape.hidden)
    )


def write_sentence_transformer(weights: WeightFile, directory: Path) -> None:
    """Write `directory` as sentence-transformers reads it: fp32 weights, tokenizer, mean pooling, prompts."""
    from safetensors.numpy import save_file

    (directory / "1_Pooling").mkdir(parents=True, exist_ok=True)
    for name, content in _json_files(weights).items():
        text = json.dumps(content, ensure_ascii=False, indent=None if name == "tokenizer.json" else 2)
        (directory / name).write_text(text + "\n", encoding="utf-8")
    save_file(weights.tensors, directory / "model.safetensors", metadata={"format": "pt"})


def _json_files(weights: WeightFile) -> dict[str, object]:
    shape = weights.shape
    return {
        "config.json": _encoder_config(weights),
        "tokenizer.json": tokenizer_json(weights.vocabulary),
        "tokenizer_config.json": _tokenizer_config(shape.positions),
        "modules.json": MODULES,
        "sentence_bert_config.json": {"max_seq_length": shape.positions, "do_lower_case": False},
        "config_sentence_transformers.json": {
            "prompts": {"query": "query: ", "document": "passage: "},
            "default_prompt_name": None,
            "similarity_fn_name": "cosine",
        },
        "1_Pooling/config.json": {"word_embedding_dimension": shape.hidden, "pooling_mode_mean_tokens": True},
    }


MODULES = [
    {"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.Transformer"},
    {"idx": 1, "name": "1", "path": "1_Pooling", "type": "sentence_transformers.models.Pooling"},
    {"idx": 2, "name": "2", "path": "2_Normalize", "type": "sentence_transformers.models.Normalize"},
]


def _encoder_config(weights: WeightFile) -> dict[str, object]:
    shape, vocabulary = weights.shape, weights.vocabulary
    return {
        "architectures": ["BertModel"],
        "model_type": "bert",
        "hidden_act": "gelu",
        "hidden_size": shape.hidden,
        "num_hidden_layers": shape.layers,
        "num_attention_heads": shape.heads,
        "intermediate_size": shape.feed_forward,
        "vocab_size": shape.vocabulary,
        "max_position_embeddings": shape.positions,
        "type_vocab_size": shape.types,
        "layer_norm_eps": shape.epsilon,
        "pad_token_id": vocabulary.pad,
        "bos_token_id": vocabulary.bos,
        "eos_token_id": vocabulary.eos,
    }


def _tokenizer_config(positions: int) -> dict[str, object]:
    special = {"bos": "<s>", "eos": "</s>", "pad": "<pad>", "unk": "<unk>", "cls": "<s>", "sep": "</s>"}
    names = {f"{name}_token": text for name, text in special.items()}
    return {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "model_max_length": positions,
        "mask_token": "<mask>",
        **names,
    }


def tokenizer_json(vocabulary: Vocabulary) -> dict[str, object]:
    """The tokenizer in the Hugging Face JSON format: Unigram over words, as the XLM-R family has it."""
    pieces = vocabulary.pieces
    special = sorted({vocabulary.bos, vocabulary.pad, vocabulary.eos, vocabulary.unknown})
    special += [index for index, (piece, _score) in enumerate(pieces) if piece == "<mask>"]
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [_added_token(index, pieces[index][0]) for index in special],
        "normalizer": {"type": "Sequence", "normalizers": _normalizers(vocabulary.rewritten)},
        "pre_tokenizer": {
            "type": "Sequence",
            "pretokenizers": [
                {"type": "WhitespaceSplit"},
                {"type": "Metaspace", "replacement": SPACE, "prepend_scheme": "always", "split": True},
            ],
        },
        "post_processor": _framing(vocabulary),
        "decoder": {"type": "Metaspace", "replacement": SPACE, "prepend_scheme": "always", "split": True},
        "model": {"type": "Unigram", "unk_id": vocabulary.unknown, "vocab": pieces, "byte_fallback": False},
    }


def _added_token(index: int, text: str) -> dict[str, object]:
    flags = {
        "single_word": False,
        "lstrip": text == "<mask>",
        "rstrip": False,
        "normalized": False,
        "special": True,
    }
    return {"id": index, "content": text, **flags}


def _normalizers(rewritten: dict[str, str]) -> list[dict[str, object]]:
    def matching(holds: Callable[[str], bool]) -> str:
        return "[" + "".join(f"\\x{{{ord(c):X}}}" for c, to in rewritten.items() if holds(to)) + "]"

    unexplained = [c for c, to in rewritten.items() if to.strip() and to != unicodedata.normalize("NFKC", c)]
    if unexplained:
        raise WeightFileUnreadable(f"{len(unexplained)} code points are rewritten in a way NFKC does not explain")
    return [
        {"type": "Replace", "pattern": {"Regex": matching(lambda to: to == "")}, "content": ""},
        {"type": "Replace", "pattern": {"Regex": matching(lambda to: to == " ")}, "content": " "},
        {"type": "NFKC"},
    ]


def _framing(vocabulary: Vocabulary) -> dict[str, object]:
    def special(text: str) -> dict[str, object]:
        return {"SpecialToken": {"id": text, "type_id": 0}}

    def sequence(name: str) -> dict[str, object]:
        return {"Sequence": {"id": name, "type_id": 0}}

    ids = {"<s>": vocabulary.bos, "</s>": vocabulary.eos}
    single = [special("<s>"), sequence("A"), special("</s>")]
    return {
        "type": "TemplateProcessing",
        "single": single,
        "pair": [*single, special("</s>"), sequence("B"), special("</s>")],
        "special_tokens": {text: {"id": text, "ids": [index], "tokens": [text]} for text, index in ids.items()},
    }
