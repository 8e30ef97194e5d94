"""Requests as clients of the Messages API write them."""

from __future__ import annotations

import json
import uuid
from typing import Any

MODEL = "claude-haiku-4-5-20251001"
TOOL = {"name": "Read", "description": "Reads a file.", "input_schema": {"type": "object"}}
REMINDER = "<system-reminder>\nKeep answers short.\n</system-reminder>"


def text(words: str) -> dict[str, Any]:
    """A text block."""
    return {"type": "text", "text": words}


def dump(value: Any) -> bytes:
    """JSON as clients send it."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


def chat(question: Any, **fields: Any) -> bytes:
    """A plain SDK request."""
    return dump({"model": MODEL, "max_tokens": 400, "messages": [{"role": "user", "content": question}], **fields})


def chat_headers(key: str, *more: tuple[str, str]) -> list[tuple[str, str]]:
    """A plain SDK request's headers."""
    return [
        ("x-api-key", key),
        ("content-type", "application/json"),
        ("user-agent", "Anthropic/Python 2.14.0"),
        ("anthropic-version", "2026-10-21"),
        *more,
    ]


class Session:
    """A conversation as Claude Code holds it: what the client wrote and was answered, nothing of ours.

    The cache marker stands on the last block and moves; a message of one text block becomes a string when
    it leaves.
    """

    def __init__(self, **fields: Any) -> None:
        self.id = str(uuid.uuid4())
        self.messages: list[dict[str, Any]] = []
        self.fields = fields

    def ask(self, question: str) -> Session:
        """The user asks."""
        reminders = [] if self.messages else [text(REMINDER)]
        self.messages.append({"role": "user", "content": [*reminders, text(question)]})
        return self

    def use_tool(self, number: int = 1) -> Session:
        """The assistant calls a tool and the client returns its result."""
        call = {"type": "tool_use", "id": f"toolu_{number}", "name": "Read", "input": {"path": "a.txt"}}
        result = {"type": "tool_result", "tool_use_id": f"toolu_{number}", "content": "a line"}
        self.messages.append({"role": "assistant", "content": [call]})
        self.messages.append({"role": "user", "content": [result]})
        return self

    def answered(self) -> Session:
        """The assistant answers."""
        self.messages.append({"role": "assistant", "content": [text("So it is.")]})
        return self

    def body(self, **fields: Any) -> bytes:
        """The next request's body."""
        messages = json.loads(json.dumps(self.messages))
        for message in messages[:-1]:
            if len(message["content"]) == 1 and message["content"][0]["type"] == "text":
                message["content"] = message["content"][0]["text"]
        messages[-1]["content"][-1]["cache_control"] = {"type": "ephemeral"}
        system = [text("You help with programming.")]
        request = {"model": MODEL, "max_tokens": 128000, "system": system, "tools": [TOOL], "messages": messages}
        return dump({**request, "stream": True, **self.fields, **fields})

    def headers(self, key: str, *more: tuple[str, str]) -> list[tuple[str, str]]:
        """The next request's headers."""
        return [
            ("authorization", f"Bearer {key}"),
            ("content-type", "application/json"),
            ("user-agent", "claude-cli/2.1.332 (external, cli)"),
            ("x-app", "cli"),
            ("x-claude-code-session-id", self.id),
            ("anthropic-version", "2023-06-01"),
            ("anthropic-beta", "claude-code-20250219,effort-2025-11-24"),
            *more,
        ]


def blocks(content: Any) -> list[dict[str, Any]]:
    """A content as a list of blocks."""
    return [text(content)] if isinstance(content, str) else content


def given(sent: bytes, got: bytes) -> list[str]:
    """Texts of the blocks that were added to the messages; fails when anything else differs."""
    before, after = json.loads(sent), json.loads(got)
    found: list[str] = []
    for message, changed in zip(before["messages"], after["messages"], strict=True):
        was, now = blocks(message["content"]), blocks(changed["content"])
        added = [i for i, block in enumerate(now) if block not in was]
        found += [now[i]["text"] for i in added]
        for i in added:
            assert now[i + 1] in was, "a block stands alone"
        changed["content"] = [block for i, block in enumerate(now) if i not in added]
        message["content"] = was
    assert before == after
    return found
