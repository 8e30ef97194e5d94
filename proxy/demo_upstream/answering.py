"""What the stand-in says: content blocks, whole answers, and the same as a stream of events."""

import json
import re
from collections.abc import Iterator
from typing import Any

from .prompt_cache import blocks_of, tokens_of
from .script import Behaviour

Json = dict[str, Any]

INTRODUCTION = "This is the built-in stand-in for the Messages API, not a language model."
ERROR_TYPES = {
    400: "invalid_request_error",
    401: "authentication_error",
    402: "billing_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    529: "overloaded_error",
}
_BLOCK = re.compile(r"\A<kb_context>\n(.*)\n</kb_context>\Z", re.DOTALL)
_SOURCE = re.compile(r"^(\S[^\n]*#L\d+-L\d+)(?: \([^\n]*\))?\n", re.MULTILINE)
_SHOWN_PASSAGES = 2
_SHOWN_CHARACTERS = 600
_PIECE = 24


def content_for(behaviour: Behaviour, body: Json, number: int) -> list[Json]:
    """Return the content blocks of the answer to a request."""
    content: list[Json] = []
    if behaviour.thinking:
        content.append({"type": "thinking", "thinking": behaviour.thinking, "signature": "c3RhbmQtaW4="})
    text = behaviour.text if behaviour.kind != "answer" else answer_from_passages(body)
    if text or behaviour.kind != "tools":
        content.append({"type": "text", "text": text or "ok"})
    if behaviour.kind == "tools":
        for i, call in enumerate(behaviour.tools):
            name = f"toolu_demo{number:08d}{i:02d}"
            content.append({"type": "tool_use", "id": name, "name": call["name"], "input": call["input"]})
    return content


def answer_from_passages(body: Json) -> str:
    """Return an answer that quotes the first passages of the newest knowledge block in the request."""
    block = _newest_block(body)
    if block is None:
        return f"{INTRODUCTION} No passages of the knowledge base came with this question."
    parts = _SOURCE.split(block)
    passages = list(zip(parts[1::2], parts[2::2], strict=False))
    quoted = "\n\n".join(f"From {source}:\n{_cut(text)}" for source, text in passages[:_SHOWN_PASSAGES])
    sources = ", ".join(source for source, _ in passages)
    return f"{INTRODUCTION} It quotes what the knowledge base gave it.\n\n{quoted}\n\nSources: {sources}"


def message_of(body: Json, behaviour: Behaviour, content: list[Json], usage: Json, number: int) -> Json:
    """Return the whole answer."""
    made = sum(tokens_of(block) for block in content)
    return {
        "id": f"msg_demo{number:010d}",
        "type": "message",
        "role": "assistant",
        "model": body.get("model"),
        "content": content,
        "stop_reason": behaviour.stop_reason or ("tool_use" if behaviour.kind == "tools" else "end_turn"),
        "stop_sequence": None,
        "usage": {**usage, "output_tokens": made, "service_tier": "standard", **behaviour.usage},
    }


def error_of(status: int, message: str, kind: str, request_id: str) -> Json:
    """Return an error as upstream writes it."""
    error = {"type": kind or ERROR_TYPES.get(status, "api_error"), "message": message}
    return {"type": "error", "error": error, "request_id": request_id}


def events_of(message: Json, behaviour: Behaviour) -> Iterator[tuple[str, Json | None, int]]:
    """Yield (event name, data or None for a comment, output tokens made so far) in upstream's order."""
    began = {**message, "content": [], "stop_reason": None, "usage": {**message["usage"], "output_tokens": 1}}
    made = 1
    yield "message_start", {"type": "message_start", "message": began}, made
    for index, block in enumerate(message["content"]):
        head, deltas = _pieces(block)
        yield "content_block_start", {"type": "content_block_start", "index": index, "content_block": head}, made
        if index == 0:
            yield "ping", {"type": "ping"}, made
            yield from _noise(made) if behaviour.noise else ()
        for delta in deltas:
            made += max(1, _PIECE // 4)
            yield "content_block_delta", {"type": "content_block_delta", "index": index, "delta": delta}, made
        yield "content_block_stop", {"type": "content_block_stop", "index": index}, made
    usage = behaviour.delta_usage or {"output_tokens": message["usage"]["output_tokens"]}
    end = {"stop_reason": message["stop_reason"], "stop_sequence": None}
    yield "message_delta", {"type": "message_delta", "delta": end, "usage": usage}, made
    yield "message_stop", {"type": "message_stop"}, made


def written(name: str, data: Json | None) -> bytes:
    """Return an event as bytes; without a name the data line alone, without data a comment."""
    if data is None:
        return b": a comment\n\n"
    line = json.dumps(data, ensure_ascii=False, separators=(",", ":"))
    return (f"event: {name}\ndata: {line}\n\n" if name else f"data: {line}\n\n").encode()


def _noise(made: int) -> Iterator[tuple[str, Json | None, int]]:
    """What clients must overlook: a comment, an event of a later version, one without a name."""
    yield "", None, made
    yield "demo_future", {"type": "demo_future", "n": [1, 2.5]}, made
    yield "", {"type": "demo_nameless"}, made


def _pieces(block: Json) -> tuple[Json, list[Json]]:
    """Return how a content block begins in a stream, and its deltas."""
    if block["type"] == "text":
        return {"type": "text", "text": ""}, [{"type": "text_delta", "text": t} for t in _cut_up(block["text"])]
    if block["type"] == "thinking":
        thoughts: list[Json] = [{"type": "thinking_delta", "thinking": t} for t in _cut_up(block["thinking"])]
        signature = {"type": "signature_delta", "signature": block["signature"]}
        return {"type": "thinking", "thinking": "", "signature": ""}, [*thoughts, signature]
    parts = ["", *_cut_up(json.dumps(block["input"]))]
    return {**block, "input": {}}, [{"type": "input_json_delta", "partial_json": t} for t in parts]


def _cut_up(text: str) -> list[str]:
    return [text[i : i + _PIECE] for i in range(0, len(text), _PIECE)] or [""]


def _newest_block(body: Json) -> str | None:
    """Return what stands inside the last knowledge block of the messages, else of the system prompt."""
    contents = [message.get("content") for message in body.get("messages") or []]
    for content in reversed([body.get("system"), *contents]):
        for block in reversed(blocks_of(content)):
            found = _BLOCK.match(str(block.get("text", ""))) if isinstance(block, dict) else None
            if found:
                return found[1]
    return None


def _cut(text: str) -> str:
    text = text.strip()
    return text if len(text) <= _SHOWN_CHARACTERS else text[:_SHOWN_CHARACTERS].rsplit(None, 1)[0] + " …"
