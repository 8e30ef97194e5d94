"""Puts text blocks into a request body without touching any other byte.

Parsing and writing again would change big integers, `1.50`, `1E+2`, lone surrogates, doubled keys and white
space, and with them what upstream's prompt cache compares. So a small scanner finds the offsets, and the
body is cut there. The body must be valid JSON (it has been parsed before); of doubled keys the last one
counts, as for every JSON parser.
"""

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import orjson

__all__ = ["BeforeBlock", "CannotSplice", "append_to_system", "has_doubled", "splice"]

_SPACE = re.compile(rb"[ \t\r\n]*")
_STRING = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"', re.DOTALL)
_STRUCTURE = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"|[\[\]{}]', re.DOTALL)
_SCALAR = re.compile(rb"[^\s,\]}]+")

Span = tuple[int, int]


class CannotSplice(Exception):
    """The body has no place for the block where it was expected."""


@dataclass(frozen=True, slots=True)
class BeforeBlock:
    """A text to put directly before a block of a message; block None means the content is a plain string."""

    message: int
    block: int | None
    text: str


def splice(body: bytes, insertions: Iterable[BeforeBlock]) -> bytes:
    """Return the body with a text block before each named block; raises CannotSplice where there is no such
    block.

    A string content becomes a list of two blocks; its own bytes stay as they are inside the second.
    """
    wanted = list(insertions)
    messages = list(_items(body, _member(body, _start(body), "messages")[0]))
    edits: list[tuple[int, bytes]] = []
    for insertion in wanted:
        if insertion.message >= len(messages):
            raise CannotSplice(f"there is no message {insertion.message}")
        content = _member(body, messages[insertion.message][0], "content")
        edits += _edits(body, content, insertion)
    return _cut_in(body, edits)


def append_to_system(body: bytes, text: str) -> bytes:
    """Return the body with the text as last block of `system`, which is made when the request has none."""
    block, start = _block(text), _start(body)
    try:
        at, end = _member(body, start, "system")
    except CannotSplice:
        first = next(_members(body, start), None)
        return _cut_in(body, [(start + 1, b'"system":[' + block + (b"]," if first else b"]"))])
    if body[at : at + 1] == b'"':
        return _cut_in(body, [(at, b'[{"type":"text","text":'), (end, b"}," + block + b"]")])
    if body[at : at + 1] != b"[":
        raise CannotSplice("system is neither text nor a list")
    last = list(_items(body, at))[-1:]
    return _cut_in(body, [(last[0][1], b"," + block)] if last else [(at + 1, block)])


def has_doubled(body: bytes, key: str) -> bool:
    """Say whether the top-level object names a key more than once, so that parsers could disagree on its
    value.
    """
    return sum(1 for name, _ in _members(body, _start(body)) if name == key) > 1


def _edits(body: bytes, content: Span, insertion: BeforeBlock) -> list[tuple[int, bytes]]:
    block, (at, end) = _block(insertion.text), content
    if insertion.block is None:
        if body[at : at + 1] != b'"':
            raise CannotSplice(f"the content of message {insertion.message} is no string")
        return [(at, b"[" + block + b',{"type":"text","text":'), (end, b"}]")]
    if body[at : at + 1] != b"[":
        raise CannotSplice(f"the content of message {insertion.message} is no list")
    for index, (start, _) in enumerate(_items(body, at)):
        if index == insertion.block:
            return [(start, block + b",")]
    raise CannotSplice(f"message {insertion.message} has no block {insertion.block}")


def _block(text: str) -> bytes:
    return orjson.dumps({"type": "text", "text": text})


def _cut_in(body: bytes, edits: list[tuple[int, bytes]]) -> bytes:
    """Return the body with each piece put in at its offset."""
    parts, done = [], 0
    for at, piece in sorted(edits, key=lambda edit: edit[0]):
        parts += [body[done:at], piece]
        done = at
    return b"".join([*parts, body[done:]])


# ------------------------------------------------------------------ the scanner
def _start(body: bytes) -> int:
    at = _space(body, 0)
    if body[at : at + 1] != b"{":
        raise CannotSplice("the body is no object")
    return at


def _member(body: bytes, at: int, key: str) -> Span:
    """Return where the value of a key of the object at `at` begins and ends; of doubled keys the last."""
    found = None
    for name, span in _members(body, at):
        if name == key:
            found = span
    if found is None:
        raise CannotSplice(f"there is no {key}")
    return found


def _members(body: bytes, at: int) -> Iterator[tuple[str, Span]]:
    """Yield (key, span of the value) of the object that begins at `at`."""
    if body[at : at + 1] != b"{":
        raise CannotSplice("not an object")
    at = _space(body, at + 1)
    while body[at : at + 1] == b'"':
        end = _end(body, at)
        name = body[at:end]
        key = json.loads(name) if b"\\" in name else name[1:-1].decode("utf-8", "replace")
        start = _space(body, _space(body, end) + 1)
        end = _end(body, start)
        yield key, (start, end)
        at = _space(body, _comma(body, end))


def _items(body: bytes, at: int) -> Iterator[Span]:
    """Yield the span of each item of the list that begins at `at`."""
    if body[at : at + 1] != b"[":
        raise CannotSplice("not a list")
    at = _space(body, at + 1)
    while body[at : at + 1] not in (b"]", b""):
        end = _end(body, at)
        yield at, end
        at = _space(body, _comma(body, end))


def _comma(body: bytes, at: int) -> int:
    at = _space(body, at)
    return at + 1 if body[at : at + 1] == b"," else at


def _space(body: bytes, at: int) -> int:
    match = _SPACE.match(body, at)
    return match.end() if match else at


def _end(body: bytes, at: int) -> int:
    """Return where the value that begins at `at` ends."""
    first = body[at : at + 1]
    if first in (b"{", b"["):
        return _end_of_container(body, at)
    match = (_STRING if first == b'"' else _SCALAR).match(body, at)
    if match is None:
        raise CannotSplice(f"no value at byte {at}")
    return match.end()


def _end_of_container(body: bytes, at: int) -> int:
    depth = 0
    for match in _STRUCTURE.finditer(body, at):
        character = body[match.start()]
        if character in b"{[":
            depth += 1
        elif character in b"}]":
            depth -= 1
            if depth == 0:
                return match.end()
    raise CannotSplice(f"the value at byte {at} has no end")
