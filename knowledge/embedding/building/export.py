"""Write a sentence-transformers model as one int8 ONNX graph, token ids in, unit vectors out. Needs torch."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

from knowledge.embedding.specs import ModelUnusable

OPSET = 17
FULL = "full.onnx"
SERVED = "model.onnx"


def export(model: Any, *, to: Path, max_tokens: int) -> None:
    """Write `to`/full.onnx (float32, pooling and normalisation inside) and `to`/tokenizer.json.

    `model` is a loaded SentenceTransformer on the CPU. The graph takes `input_ids` and `attention_mask`
    (int64 [texts, tokens]) and gives `vectors` (float32 [texts, dimensions]). Raises ModelUnusable.
    """
    to.mkdir(parents=True)
    try:
        _export_full(model, to / FULL)
    except (RuntimeError, ValueError, TypeError, KeyError) as error:
        raise ModelUnusable(
            f"the model can't be exported to ONNX ({error}); set KB_EMBEDDING_PROVIDER to openai and serve it over HTTP"
        ) from error
    _write_tokenizer(model, to / "tokenizer.json", max_tokens=max_tokens)


def quantise(directory: Path) -> None:
    """Write model.onnx from full.onnx with 8-bit weights, one scale a channel."""
    from onnxruntime.quantization import QuantType, quantize_dynamic

    quantize_dynamic(directory / FULL, directory / SERVED, per_channel=True, weight_type=QuantType.QInt8)


def keep_full(directory: Path) -> None:
    """Let full.onnx be the model.onnx that serves."""
    (directory / FULL).replace(directory / SERVED)


def _export_full(model: Any, file: Path) -> None:
    import torch

    class Graph(torch.nn.Module):
        """All of the model's own modules in a row, then unit length."""

        def __init__(self) -> None:
            super().__init__()
            self.steps = torch.nn.ModuleList(model)

        def forward(self, input_ids: Any, attention_mask: Any) -> Any:
            features = {"input_ids": input_ids, "attention_mask": attention_mask}
            for step in self.steps:
                features = step(features)
            return torch.nn.functional.normalize(features["sentence_embedding"], dim=-1)

    sample = model.tokenizer(["a text to trace with", "another"], padding=True, return_tensors="pt")
    axes = {0: "texts", 1: "tokens"}
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")  # tracing warns of every constant shape, and that it is the older way
        torch.onnx.export(
            Graph().eval(),  # without eval() the wrapper trains, and dropout makes every vector wrong
            (sample["input_ids"], sample["attention_mask"]),
            str(file),
            dynamo=False,
            opset_version=OPSET,
            input_names=["input_ids", "attention_mask"],
            output_names=["vectors"],
            dynamic_axes={"input_ids": axes, "attention_mask": axes, "vectors": {0: "texts"}},
        )


def _write_tokenizer(model: Any, file: Path, *, max_tokens: int) -> None:
    from tokenizers import Tokenizer

    fast = model.tokenizer
    tokenizer = Tokenizer.from_str(fast.backend_tokenizer.to_str())
    tokenizer.enable_truncation(max_length=max_tokens)
    tokenizer.enable_padding(pad_id=fast.pad_token_id, pad_token=fast.pad_token)
    tokenizer.save(str(file), pretty=False)
