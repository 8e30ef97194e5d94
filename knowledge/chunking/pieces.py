"""What a chunk is: a slice of a page's text that knows its lines, and the rules every slice obeys."""

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal, NamedTuple

from semantic_text_splitter import MarkdownSplitter, TextSplitter

Grammar = Literal["markdown", "text"]


@dataclass(frozen=True, slots=True)
class Piece:
    """One retrievable slice of a page: `body[start:start + len(text)] == text`.

    `first_line` and `last_line` are 1-based and inclusive, lines being what `body.split("\\n")` gives.
    `trail` holds the headings (Markdown) or enclosing symbols (code), outermost first.
    """

    text: str
    start: int
    first_line: int
    last_line: int
    trail: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ChunkSizes:
    """How long a chunk may be, in characters, for each kind of text.

    The defaults keep a chunk and its prefix within the 512 tokens that the embedding model reads: measured with
    its tokenizer, source code has at least 2.7 characters a token and Spanish, Russian or tabular Markdown 2.4.
    `overlap` repeats the end of a code chunk at the start of the next, within the cap. Chunks shorter than `tiny`
    are joined to a neighbour where the result fits.
    """

    markdown: int = 900
    code: int = 1200
    text: int = 900
    overlap: int = 0
    tiny: int = 120

    def __post_init__(self) -> None:
        if min(self.markdown, self.code, self.text) < 50:
            raise ValueError("a chunk size must be at least 50 characters")
        if not 0 <= self.overlap <= self.code // 2:
            raise ValueError("the overlap must be between 0 and half of the code size")
        if self.tiny < 0:
            raise ValueError("tiny must not be negative")


class Span(NamedTuple):
    """A half-open range of characters of the body, with its trail."""

    start: int
    end: int
    trail: tuple[str, ...] = ()


class Lines:
    """Where each line of a body starts, to turn offsets into line numbers and back."""

    def __init__(self, body: str) -> None:
        self.starts = [0, *(match.end() for match in re.finditer("\n", body))]
        self.size = len(body)

    def number(self, offset: int) -> int:
        """The 1-based line that holds the character at `offset`."""
        return bisect_right(self.starts, offset)

    def offset(self, index: int) -> int:
        """Where the 0-based line `index` starts; the end of the body for an index past the last."""
        return self.starts[index] if index < len(self.starts) else self.size


def cut(body: str, spans: Iterable[Span], *, cap: int, grammar: Grammar = "text") -> list[Piece]:
    """Turn spans into pieces: outer blanks off, blank ones dropped, none longer than `cap`."""
    lines = Lines(body)
    fitting = (part for span in spans for part in _fitting(body, span, cap=cap, grammar=grammar))
    trimmed = (trim(body, span) for span in fitting)
    return [_piece(body, span, lines) for span in trimmed if span.start < span.end]


def trim(body: str, span: Span) -> Span:
    """The span without outer blanks; an empty one when nothing else is in it."""
    text = body[span.start : span.end]
    start = span.start + len(text) - len(text.lstrip())
    return Span(start, max(start, span.start + len(text.rstrip())), span.trail)


def split(body: str, span: Span, *, cap: int, grammar: Grammar = "text") -> list[Span]:
    """Split one span into adjacent spans of at most `cap` characters at the best boundaries of the grammar."""
    parts: list[Span] = []
    for window in _windows(body, span, cap=cap):
        text = _storable(body[window.start : window.end])
        for offset, part in _splitter(grammar, *_balanced(len(text), cap)).chunk_indices(text):
            begin = window.start + offset
            parts += _hard(Span(begin, begin + len(part), span.trail), cap)
    return parts


def _piece(body: str, span: Span, lines: Lines) -> Piece:
    first, last = lines.number(span.start), lines.number(span.end - 1)
    return Piece(body[span.start : span.end], span.start, first, last, span.trail)


def _fitting(body: str, span: Span, *, cap: int, grammar: Grammar) -> Sequence[Span]:
    span = trim(body, span)
    return [span] if span.end - span.start <= cap else split(body, span, cap=cap, grammar=grammar)


def _balanced(size: int, cap: int) -> tuple[int, int]:
    """A range to fill chunks to, so that the last one is not a crumb."""
    count = -(-size // cap)
    return max(1, min(cap, size // max(1, count))), cap


@lru_cache(maxsize=256)
def _splitter(grammar: Grammar, least: int, most: int) -> MarkdownSplitter | TextSplitter:
    kind = MarkdownSplitter if grammar == "markdown" else TextSplitter
    return kind((least, most), trim=False)


def _storable(text: str) -> str:
    """The same length without lone surrogates, which the splitter's strings cannot hold."""
    return re.sub("[\ud800-\udfff]", "?", text)


def _windows(body: str, span: Span, *, cap: int) -> Iterator[Span]:
    """Cut a long span into stretches of about eight chunks.

    The splitter looks at all that is left for every chunk when a text has no line ends: 3 MB on one line took it
    36 to 119 seconds, and under half a second in windows.
    """
    start = span.start
    while span.end - start > 10 * cap:
        end = _boundary(body, start + 7 * cap, start + 8 * cap)
        yield Span(start, end, span.trail)
        start = end
    yield Span(start, span.end, span.trail)


def _boundary(body: str, least: int, most: int) -> int:
    """The best place to cut between two offsets: a blank line, a line end, a statement's end, a blank."""
    for mark in ("\n\n", "\n", "; ", ". ", ";", "}", " "):
        found = body.rfind(mark, least, most)
        if found >= 0:
            return found + len(mark)
    return most


def _hard(span: Span, cap: int) -> Iterator[Span]:
    """Equal cuts for what the splitter left too long (one grapheme of a thousand combining marks)."""
    for start in range(span.start, span.end, cap):
        yield Span(start, min(span.end, start + cap), span.trail)
