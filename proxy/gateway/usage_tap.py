"""Reads what an answer cost while its bytes pass by, whole or as a stream, without holding any of them
back.
"""

import zlib
from dataclasses import dataclass, field
from typing import Any, Final

import orjson

__all__ = ["Usage", "UsageTap"]

_LARGEST: Final = 32 << 20  # a longer answer that isn't a stream is relayed, but its usage stays unknown
_LONGEST_LINE: Final = 4 << 20  # of a longer event nothing is read: no usage is that long, and memory is not endless
_MOST_UNPACKED: Final = 32 << 20  # of one piece of the answer; more is no answer but a bomb
_MOST_DELTAS: Final = 2_000  # events whose reading is put off; most streams end before and need none of them read


@dataclass(slots=True)
class Usage:
    """Tokens as upstream reported them; `reported` is False while it has said nothing.

    `output` of a broken stream is what upstream had reported or, by estimate, produced, whichever is more.
    """

    input: int = 0
    output: int = 0
    cache_write_5m: int = 0
    cache_write_1h: int = 0
    cache_read: int = 0
    server_tool_use: dict[str, int] = field(default_factory=dict)
    model: str = ""
    reported: bool = False
    error: str = ""

    def take(self, usage: Any) -> None:
        """Read a `usage` object; later ones are cumulative and overrule what they name."""
        if not isinstance(usage, dict):
            return
        self.reported = True
        self.input = _number(usage, "input_tokens", self.input)
        self.output = _number(usage, "output_tokens", self.output)
        self.cache_read = _number(usage, "cache_read_input_tokens", self.cache_read)
        self._take_writes(usage)
        tools = usage.get("server_tool_use")
        if isinstance(tools, dict):
            self.server_tool_use = {k: v for k, v in tools.items() if isinstance(v, int)}

    def _take_writes(self, usage: dict[str, Any]) -> None:
        """Read the two lifetimes; where upstream gives only their sum, all of it counts as five minutes."""
        parts = usage.get("cache_creation")
        if isinstance(parts, dict):
            self.cache_write_5m = _number(parts, "ephemeral_5m_input_tokens", self.cache_write_5m)
            self.cache_write_1h = _number(parts, "ephemeral_1h_input_tokens", self.cache_write_1h)
        elif "cache_creation_input_tokens" in usage:
            total = _number(usage, "cache_creation_input_tokens", 0)
            self.cache_write_5m = max(0, total - self.cache_write_1h)


class UsageTap:
    """Give it the answer's bytes with `feed`, then `finish`; `usage` says what it cost.

    It reads `gzip` and `deflate` as well, though upstream is asked for plain bytes.
    """

    def __init__(self, *, content_type: str, content_encoding: str = "") -> None:
        self.usage = Usage()
        self.streaming = content_type.lower().startswith("text/event-stream")
        self._unpack = _unpacker(content_encoding)
        self._kept: list[bytes] = []
        self._size = 0
        self._deltas: list[bytes] = []
        self._produced = 0
        self._complete = False

    def feed(self, data: bytes) -> None:
        """Look at the next bytes of the answer."""
        data = self._plain(data)
        if self.streaming:
            self._lines(data)
        elif self._size <= _LARGEST:
            self._size += len(data)
            self._kept.append(data)

    def finish(self) -> Usage:
        """Return what the answer cost, however it ended."""
        if not self.streaming:
            self._whole(b"".join(self._kept))
        elif not self._complete:
            self._count_deltas()
            self.usage.output = max(self.usage.output, self._produced // 4)
        return self.usage

    def _plain(self, data: bytes) -> bytes:
        if self._unpack is None:
            return data
        try:
            plain = bytes(self._unpack.decompress(data, _MOST_UNPACKED))
        except zlib.error:
            return b""
        if self._unpack.unconsumed_tail:
            self._unpack = zlib.decompressobj()  # it reads nothing of what follows
        return plain

    def _lines(self, data: bytes) -> None:
        first, *more = data.split(b"\n")
        self._keep(first)
        for following in more:
            self._line(b"".join(self._kept))
            self._kept, self._size = [], 0
            self._keep(following)

    def _keep(self, part: bytes) -> None:
        """Keep a part of a line that has not ended yet, unless it has grown too long to be one of ours."""
        self._size += len(part)
        if self._size <= _LONGEST_LINE:
            self._kept.append(part)
        else:
            self._kept.clear()

    def _line(self, line: bytes) -> None:
        if not line.startswith(b"data:"):
            return
        if b'"content_block_delta"' in line:  # read only when the stream breaks, to tell what was produced
            self._deltas.append(line)
            if len(self._deltas) >= _MOST_DELTAS:
                self._count_deltas()
        elif b'"message_start"' in line or b'"message_delta"' in line or b'"error"' in line:
            self._event(_parsed(line))

    def _count_deltas(self) -> None:
        self._produced += sum(_length(_parsed(line).get("delta")) for line in self._deltas)
        self._deltas.clear()

    def _event(self, event: dict[str, Any]) -> None:
        kind = event.get("type")
        if kind == "message_start":
            message = event.get("message")
            if isinstance(message, dict):
                self.usage.model = str(message.get("model") or "")
                self.usage.take(message.get("usage"))
        elif kind == "message_delta":
            self._complete = True
            self.usage.take(event.get("usage"))
        elif kind == "error":
            self._complete = False
            self.usage.error = _error_type(event)

    def _whole(self, data: bytes) -> None:
        try:
            answer = orjson.loads(data)
        except orjson.JSONDecodeError:
            return
        if not isinstance(answer, dict):
            return
        if answer.get("type") == "error":
            self.usage.error = _error_type(answer)
            return
        self.usage.model = str(answer.get("model") or "")
        self.usage.take(answer.get("usage"))


def _parsed(line: bytes) -> dict[str, Any]:
    """Return the event of a data line, {} when it is none."""
    try:
        event = orjson.loads(line[5:])
    except orjson.JSONDecodeError:
        return {}
    return event if isinstance(event, dict) else {}


def _unpacker(encoding: str) -> Any:
    """Return a decompressor that tells gzip and zlib apart by itself, or None for plain bytes."""
    return zlib.decompressobj(wbits=47) if encoding.lower() in ("gzip", "deflate") else None


def _number(values: dict[str, Any], name: str, otherwise: int) -> int:
    value = values.get(name)
    return value if isinstance(value, int) else otherwise


def _length(delta: Any) -> int:
    """Return how many characters a delta carries; four make about a token."""
    if not isinstance(delta, dict):
        return 0
    return sum(len(str(delta.get(name) or "")) for name in ("text", "thinking", "partial_json"))


def _error_type(event: dict[str, Any]) -> str:
    error = event.get("error")
    return str(error.get("type") or "error") if isinstance(error, dict) else "error"
