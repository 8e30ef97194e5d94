"""Retrieval quality and speed on an evaluation set, through the product's own ingest and search.

A set is a JSON file: {"language", "chunks": [{"id", "path", "index", "heading": […], "text"}],
"questions": [{"id", "text", "gold": [[chunk ids], …]}]}. Pass@k is the mean over questions of the share of
gold groups of which a chunk is among the first k hits; nDCG@10 has gain 1 for every gold chunk.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from pathlib import Path
from typing import Any

from bench.product import Product, percentile

DEPTHS = (5, 10, 20)
BATCH = 20


def main(arguments: list[str]) -> int:
    """Load the set, ask its questions, print the figures as JSON; return 1 below a floor."""
    options = _options(arguments)
    data = json.loads(options.set.read_text(encoding="utf-8"))
    with Product() as product:
        key = product.fresh_key(language=data["language"])
        figures = {"set": options.set.name, **_load(product, key, data["chunks"]), **_ask(product, key, data)}
        for other in options.off_topic or ():
            questions = json.loads(other.read_text(encoding="utf-8"))["questions"]
            figures[f"off_topic_let_through_{other.stem}"] = _share_with_evidence(
                product, key, [question["text"] for question in questions[:: max(1, len(questions) // 250)]]
            )
    print(json.dumps(figures, indent=1))
    low = [f"pass@{k}" for k, floor in zip(DEPTHS, options.floors, strict=True) if figures[f"pass@{k}"] < floor]
    return 1 if low else 0


def _options(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench retrieval", description=__doc__)
    parser.add_argument("--set", type=Path, required=True, help="the evaluation set")
    parser.add_argument(
        "--off-topic", type=Path, action="append", help="another set, whose questions have no answer here"
    )
    parser.add_argument("--floors", type=_floors, default=(0.0, 0.0, 0.0), help="least Pass@5,10,20 in per cent")
    return parser.parse_args(arguments)


def _floors(text: str) -> tuple[float, ...]:
    values = tuple(float(part) for part in text.split(","))
    if len(values) != len(DEPTHS):
        raise argparse.ArgumentTypeError("give three numbers with commas")
    return values


def _load(product: Product, key: str, chunks: list[dict[str, Any]]) -> dict[str, Any]:
    begun = time.perf_counter()
    rows = [
        {"content": row["text"], "file_path": row["path"], "chunk_index": row["index"], "heading": row["heading"]}
        for row in chunks
    ]
    for start in range(0, len(rows), BATCH):
        reply = product.call("POST", "/knowledge/ingest", key, {"chunks": rows[start : start + BATCH]})
        if reply.status != 200 or reply.body["failed"]:
            raise SystemExit(f"ingest answered {reply}")
    seconds = time.perf_counter() - begun
    return {"chunks": len(rows), "ingest_chunks_per_second": round(len(rows) / seconds, 1)}


def _ask(product: Product, key: str, data: dict[str, Any]) -> dict[str, Any]:
    names = {(row["path"], row["text"].strip()): row["id"] for row in data["chunks"]}
    sums, gain, kept, times = dict.fromkeys(DEPTHS, 0.0), 0.0, 0, []
    for question in data["questions"]:
        reply = product.call("POST", "/v1/query", key, {"query": question["text"], "top_k": 20, "full_text": True})
        hits = [names.get((hit["path"], hit["snippet"].strip())) for hit in reply.body["hits"]]
        times.append(reply.seconds * 1000)
        kept += max((hit["evidence"] for hit in reply.body["hits"]), default=0) >= 0.25
        for depth in DEPTHS:
            sums[depth] += sum(any(name in hits[:depth] for name in group) for group in question["gold"]) / len(
                question["gold"]
            )
        gain += _ndcg(hits[:10], {name for group in question["gold"] for name in group})
    count = len(data["questions"])
    return {
        "questions": count,
        **{f"pass@{depth}": round(100 * sums[depth] / count, 2) for depth in DEPTHS},
        "ndcg@10": round(100 * gain / count, 2),
        "on_topic_kept": round(100 * kept / count, 1),
        "query_ms_p50": round(percentile(times, 0.5), 1),
        "query_ms_p95": round(percentile(times, 0.95), 1),
    }


def _ndcg(hits: list[Any], golden: set[Any]) -> float:
    got: float = sum(1 / math.log2(rank + 2) for rank, name in enumerate(hits) if name in golden)
    ideal: float = sum(1 / math.log2(rank + 2) for rank in range(min(10, len(golden))))
    return got / ideal


def _share_with_evidence(product: Product, key: str, texts: list[str]) -> float:
    best = [product.call("POST", "/v1/query", key, {"query": text, "top_k": 20}).body["hits"] for text in texts]
    let: int = sum(max((hit["evidence"] for hit in hits), default=0) >= 0.25 for hits in best)
    return round(100.0 * let / len(texts), 1)
