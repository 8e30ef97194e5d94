"""What an answer cost is read off its bytes while they pass."""

import gzip
import json
import tracemalloc
from typing import Any

import pytest

from proxy.gateway.usage_tap import Usage, UsageTap

START = {
    "type": "message_start",
    "message": {
        "model": "claude-x",
        "usage": {
            "input_tokens": 7,
            "output_tokens": 1,
            "cache_read_input_tokens": 30,
            "cache_creation_input_tokens": 25,
            "cache_creation": {"ephemeral_5m_input_tokens": 20, "ephemeral_1h_input_tokens": 5},
        },
    },
}
DELTA = {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 42}}


def event(value: dict[str, Any]) -> bytes:
    return f"event: {value['type']}\ndata: {json.dumps(value)}\n\n".encode()


def text(words: str) -> bytes:
    return event({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": words}})


def read(data: bytes, *, size: int = 10_000, kind: str = "text/event-stream; charset=utf-8", packed: str = "") -> Usage:
    tap = UsageTap(content_type=kind, content_encoding=packed)
    for start in range(0, len(data), size):
        tap.feed(data[start : start + size])
    return tap.finish()


def test_it_works() -> None:
    usage = read(event(START) + text("Hello") + event(DELTA))

    assert usage == Usage(7, 42, 20, 5, 30, {}, "claude-x", reported=True)


@pytest.mark.parametrize("size", [1, 7, 64])
def test_events_cut_anywhere_are_read(size: int) -> None:
    assert read(event(START) + text("Hello") + event(DELTA), size=size).output == 42


def test_a_plain_answer_is_read_whole() -> None:
    answer = {"type": "message", "model": "claude-x", "usage": {"input_tokens": 9, "output_tokens": 3}}
    usage = read(json.dumps(answer).encode(), size=5, kind="application/json")

    assert (usage.input, usage.output, usage.model, usage.reported) == (9, 3, "claude-x", True)


def test_gzip_is_read_too() -> None:
    assert read(gzip.compress(event(START) + event(DELTA)), size=9, packed="gzip").output == 42


def test_a_broken_stream_counts_what_was_produced() -> None:
    assert read(event(START) + text("sixteen letters ") * 10).output == 40


def test_a_later_report_is_cumulative() -> None:
    more = {"input_tokens": 900, "output_tokens": 321, "server_tool_use": {"web_search_requests": 2}}
    usage = read(event(START) + event({**DELTA, "usage": more}))

    assert (usage.input, usage.output, usage.cache_read) == (900, 321, 30)
    assert usage.server_tool_use == {"web_search_requests": 2}


def test_a_sum_of_cache_writes_counts_as_five_minutes() -> None:
    answer = {"usage": {"input_tokens": 1, "output_tokens": 1, "cache_creation_input_tokens": 11}}
    usage = read(json.dumps(answer).encode(), kind="application/json")

    assert (usage.cache_write_5m, usage.cache_write_1h) == (11, 0)


def test_an_error_in_the_stream_is_named() -> None:
    usage = read(event(START) + event({"type": "error", "error": {"type": "overloaded_error", "message": "x"}}))

    assert usage.error == "overloaded_error"
    assert usage.input == 7


@pytest.mark.parametrize(
    "data",
    [b"", b"<html>", b"data: {not json message_start\n\n", b"data: [1]\n\n", b"\xff\xfe", b'data: "message_start"\n'],
)
@pytest.mark.parametrize("kind", ["text/event-stream", "application/json", ""])
def test_anything_else_costs_nothing(data: bytes, kind: str) -> None:
    assert not read(data, kind=kind).reported


def test_a_line_without_an_end_is_not_kept() -> None:
    tap = UsageTap(content_type="text/event-stream")
    tracemalloc.start()
    for _ in range(64):
        tap.feed(b"data: " + b"x" * (1 << 20))
    held, _most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    tap.feed(b"\n\n" + event(START) + event(DELTA))

    assert held < 8 << 20
    assert (tap.finish().input, tap.finish().output) == (7, 42)


def test_a_bomb_is_not_unpacked() -> None:
    packed = gzip.compress(b"x" * (256 << 20), compresslevel=1)
    tap = UsageTap(content_type="text/event-stream", content_encoding="gzip")
    tracemalloc.start()
    tap.feed(packed)
    tap.feed(packed)
    _held, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert most < 128 << 20
    assert tap.finish() == Usage()
