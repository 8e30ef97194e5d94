"""Counts tokens the way upstream bills them: what is new, what is written to the prompt cache, what is read
from it.

By the public rules: the prefix runs through tools, system and messages; each `cache_control` marker writes
the prefix up to its block; reading walks back at most 20 blocks from a marker; a prefix under 1,024 tokens
isn't kept; an entry lives five minutes (or an hour where the marker says so) from its last use, apart by
credential and model. A token is four bytes of compact JSON, which is no tokenizer's truth but the same for
all that is compared.
"""

import hashlib
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

FEWEST_TOKENS = 1024
LOOKBACK_BLOCKS = 20
MOST_MARKERS = 4
SECONDS = {"5m": 300.0, "1h": 3600.0}
ATTRIBUTION = "x-anthropic-billing-header:"  # upstream drops this line while it is the first block of system


class TooManyMarkers(Exception):
    """A maximum of 4 blocks with cache_control may be provided."""


@dataclass(frozen=True)
class Counted:
    """Tokens of one request's input, by how they are billed."""

    plain: int
    read: int
    written_5m: int
    written_1h: int

    @property
    def total(self) -> int:
        """All input tokens, however billed."""
        return self.plain + self.read + self.written_5m + self.written_1h

    def usage(self) -> dict[str, Any]:
        """Return the input side of a `usage` object."""
        return {
            "input_tokens": self.plain,
            "cache_creation_input_tokens": self.written_5m + self.written_1h,
            "cache_read_input_tokens": self.read,
            "cache_creation": {
                "ephemeral_5m_input_tokens": self.written_5m,
                "ephemeral_1h_input_tokens": self.written_1h,
            },
        }


@dataclass(frozen=True)
class _Prefix:
    """A request up to one of its blocks: its name, its size, and how long its marker keeps it (None: no
    marker).
    """

    name: str
    tokens: int
    lifetime: str | None


class PromptCache:
    """Remembers prefixes; `clock` gives seconds."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._until: dict[str, float] = {}

    def clear(self) -> None:
        """Forget every prefix."""
        self._until.clear()

    def count(self, body: dict[str, Any], *, credential: str, keep: bool = True) -> Counted:
        """Count a request; with keep, also remember its marked prefixes. Raises TooManyMarkers."""
        prefixes = list(_prefixes(body, credential))
        marked = [i for i, prefix in enumerate(prefixes) if prefix.lifetime]
        if len(marked) > MOST_MARKERS:
            raise TooManyMarkers(
                f"A maximum of {MOST_MARKERS} blocks with cache_control may be provided. Found {len(marked)}."
            )
        read = self._read(prefixes, marked)
        upto, written = read, {"5m": 0, "1h": 0}
        for i in marked:
            prefix = prefixes[i]
            if prefix.lifetime is None or prefix.tokens < FEWEST_TOKENS:
                continue
            if keep:
                self._until[prefix.name] = self._clock() + SECONDS[prefix.lifetime]
            if prefix.tokens > upto:
                written[prefix.lifetime] += prefix.tokens - upto
                upto = prefix.tokens
        total = prefixes[-1].tokens if prefixes else 0
        return Counted(total - upto, read, written["5m"], written["1h"])

    def _read(self, prefixes: list[_Prefix], marked: list[int]) -> int:
        """Return the size of the longest known prefix within reach of a marker, the last marker first."""
        for i in reversed(marked):
            for prefix in reversed(prefixes[max(0, i - LOOKBACK_BLOCKS + 1) : i + 1]):
                if self._until.get(prefix.name, 0.0) > self._clock():
                    self._until[prefix.name] = max(self._until[prefix.name], self._clock() + SECONDS["5m"])
                    return prefix.tokens
        return 0


def tokens_of(value: Any) -> int:
    """Return the tokens of a JSON value: a quarter of its compact UTF-8 form, at least one."""
    return max(1, len(_compact(value)) // 4)


def blocks_of(content: Any) -> list[Any]:
    """Return a content as a list of blocks."""
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    return content if isinstance(content, list) else []


def _prefixes(body: dict[str, Any], credential: str) -> Iterator[_Prefix]:
    digest, total = hashlib.sha256(f"{credential}|{body.get('model')}".encode()), 0
    for block, marker in _blocks(body):
        digest.update(_compact(block))
        total += tokens_of(block)
        lifetime = ("1h" if marker.get("ttl") == "1h" else "5m") if isinstance(marker, dict) else None
        yield _Prefix(digest.hexdigest(), total, lifetime)


def _blocks(body: dict[str, Any]) -> Iterator[tuple[Any, Any]]:
    """Yield (block with its place and without its marker, marker) in the order that the cache sees."""
    for tool in body.get("tools") or []:
        yield ["tools", _plain(tool)], _marker(tool)
    for i, block in enumerate(blocks_of(body.get("system"))):
        if i or not str(block.get("text", "")).startswith(ATTRIBUTION):
            yield ["system", _plain(block)], _marker(block)
    for message in body.get("messages") or []:
        for block in blocks_of(message.get("content")):
            yield ["messages", message.get("role"), _plain(block)], _marker(block)


def _plain(block: Any) -> Any:
    return {k: v for k, v in block.items() if k != "cache_control"} if isinstance(block, dict) else block


def _marker(block: Any) -> Any:
    return block.get("cache_control") if isinstance(block, dict) else None


def _compact(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "surrogatepass")
