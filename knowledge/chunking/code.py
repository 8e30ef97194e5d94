"""Source code and configuration to spans, by indentation: whole functions where they fit."""

import itertools
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from knowledge.chunking.pieces import Lines, Span, trim
from knowledge.chunking.symbols import CLOSING, LEADING, Outline, outline, trails


class Source(NamedTuple):
    """A source file by lines.

    Of each line: its indentation (-1 for a blank one), whether a block may begin with it (it is no closing bracket
    and not inside a string), whether it leads in the next (a comment, a decorator); and where lines start.
    """

    indents: Sequence[int]
    opens: Sequence[bool]
    leads: Sequence[bool]
    lines: Lines

    def size(self, first: int, after: int) -> int:
        return self.lines.offset(after) - self.lines.offset(first)


def code_spans(path: str, body: str, *, cap: int, tiny: int, overlap: int) -> list[Span]:
    """The chunks of a source file, each with its enclosing symbols; a line longer than `cap` is a span of its own."""
    rows = body.split("\n")
    indents = [_indent(row) for row in rows]
    known: Outline = outline(path, rows, indents)
    source = _source(body, rows, indents, known)
    ranges = _without_crumbs(source, _ranges(source, cap - overlap), cap - overlap, tiny)
    shown = [_shown(source, *bounds) for bounds in ranges]
    spans = [
        Span(source.lines.offset(first), source.lines.offset(after), trail)
        for (first, after), trail in zip(ranges, trails(known.symbols, shown), strict=True)
    ]
    return _overlapped(body, source, spans, cap, overlap) if overlap else spans


def _source(body: str, rows: Sequence[str], indents: Sequence[int], known: Outline) -> Source:
    opens = [
        indent >= 0 and index not in known.quoted and not CLOSING.match(row)
        for index, (row, indent) in enumerate(zip(rows, indents, strict=True))
    ]
    return Source(indents, opens, [LEADING.match(row) is not None for row in rows], Lines(body))


def _indent(row: str) -> int:
    text = row.lstrip()
    return len(row[: len(row) - len(text)].expandtabs(4)) if text else -1


def _ranges(source: Source, cap: int) -> Iterator[tuple[int, int]]:
    """Line ranges in order, each at most `cap` long unless it is one line.

    A range that is too long falls into the blocks of its lowest indentation; neighbours are packed while they fit,
    and a block that is too long itself is opened in turn. No recursion: indentation can be thousands deep.
    """
    waiting = [(0, len(source.indents))]
    while waiting:
        first, after = waiting.pop()
        if source.size(first, after) <= cap or after - first == 1:
            yield first, after
            continue
        starts = _block_starts(source, first, after)
        if len(starts) == 1:
            starts = _inner_starts(source, first, after) or list(range(first, after))
        waiting += reversed(_packed(source, [*starts, after], cap))


def _block_starts(source: Source, first: int, after: int, *, skip: int = 0) -> list[int]:
    """Lines at which a block begins: at the lowest indentation, not closing one, not led in by a comment."""
    level = min((source.indents[at] for at in range(first + skip, after) if source.opens[at]), default=-1)
    starts = [first]
    for at in range(first + max(1, skip), after):
        led = source.indents[at - 1] == level and source.leads[at - 1]
        if source.indents[at] == level and source.opens[at] and not led:
            starts.append(at)
    return starts


def _inner_starts(source: Source, first: int, after: int) -> list[int]:
    """The blocks inside a single block; none when there is no deeper level to open."""
    outer = source.indents[first]
    inner = min((source.indents[at] for at in range(first + 1, after) if source.opens[at]), default=-1)
    starts = _block_starts(source, first, after, skip=1) if inner > outer else []
    return starts if len(starts) > 1 else []


def _packed(source: Source, starts: Sequence[int], cap: int) -> list[tuple[int, int]]:
    """Pack neighbouring blocks up to two thirds of the cap, so that one chunk is about few things.

    `starts` ends with the line after the last block.
    """
    ranges: list[tuple[int, int]] = []
    begin, index = 0, 1
    while index < len(starts):
        if index == begin + 1 or source.size(starts[begin], starts[index]) <= 2 * cap // 3:
            index += 1
            continue
        stop = _best_stop(source, starts, begin, index - 1, cap)
        ranges.append((starts[begin], starts[stop]))
        begin, index = stop, stop + 1
    return [*ranges, (starts[begin], starts[-1])]


def _best_stop(source: Source, starts: Sequence[int], begin: int, most: int, cap: int) -> int:
    """The last block of a full range that follows a blank line, unless that leaves the range under a third full."""
    for stop in range(most, begin, -1):
        if source.size(starts[begin], starts[stop]) < cap // 3:
            break
        if source.indents[starts[stop] - 1] < 0:
            return stop
    return most


def _without_crumbs(source: Source, ranges: Iterator[tuple[int, int]], cap: int, tiny: int) -> list[tuple[int, int]]:
    """Join a range of a few characters (a closing bracket, a lone import) to its neighbour where both fit."""
    kept: list[tuple[int, int]] = []
    for first, after in ranges:
        sizes = (source.size(*kept[-1]), source.size(first, after)) if kept else (0, 0)
        if kept and min(sizes) < tiny and source.size(kept[-1][0], after) <= cap:
            kept[-1] = kept[-1][0], after
        else:
            kept.append((first, after))
    return kept


def _shown(source: Source, first: int, after: int) -> tuple[int, int]:
    """The range without blank lines at its ends, as it will be shown."""
    while first < after - 1 and source.indents[first] < 0:
        first += 1
    while after - 1 > first and source.indents[after - 1] < 0:
        after -= 1
    return first, after


def _overlapped(body: str, source: Source, spans: Sequence[Span], cap: int, overlap: int) -> list[Span]:
    """Let each span begin at a line up to `overlap` characters earlier, but after the one before it began."""
    widened = list(spans[:1])
    for before, span in itertools.pairwise(spans):
        least = max(span.start - overlap, trim(body, before).start + 1)
        start = source.lines.starts[bisect_left(source.lines.starts, least)]
        widened.append(span._replace(start=start) if span.end - span.start <= cap - overlap else span)
    return widened
