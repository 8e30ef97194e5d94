"""Prose to spans: by section with the heading trail, headings kept with their text, crumbs joined."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from knowledge.chunking.headings import Heading
from knowledge.chunking.pieces import Grammar, Lines, Span, split, trim


class Section(NamedTuple):
    """A stretch of the body: `[start, content)` are headings, `[content, rest)` text, `[rest, end)` headings again."""

    start: int
    content: int
    rest: int
    end: int
    trail: tuple[str, ...]


def section_spans(
    body: str, headings: Sequence[Heading], *, start: int, cap: int, tiny: int, grammar: Grammar
) -> list[Span]:
    """The chunks of a document from offset `start` on; `cap` and `tiny` are characters."""
    spans: list[Span] = []
    for section in _joined(body, _carried(body, _sections(body, headings, start)), cap, tiny):
        spans += _split_section(body, section, cap, tiny, grammar)
    return spans


def _sections(body: str, headings: Sequence[Heading], start: int) -> Iterator[Section]:
    lines = Lines(body)
    headings = [heading for heading in headings if lines.offset(heading.first) >= start]
    begins = [lines.offset(heading.first) for heading in headings]
    yield Section(start, start, begins[0] if begins else len(body), begins[0] if begins else len(body), ())
    open_headings: list[Heading] = []
    for heading, begin, end in zip(headings, begins, [*begins[1:], len(body)], strict=True):
        open_headings = [*(outer for outer in open_headings if outer.level < heading.level), heading]
        trail = tuple(outer.title for outer in open_headings if outer.title)
        yield Section(begin, lines.offset(heading.after), end, end, trail)


def _carried(body: str, sections: Iterator[Section]) -> list[Section]:
    """Headings without text of their own go with the next section, or with the last one at the end."""
    kept: list[Section] = []
    waiting: int | None = None
    for section in sections:
        first = section.start if waiting is None else waiting
        if _is_blank(body[section.content : section.rest]):
            if waiting is None and body[first : section.end].strip():
                waiting = first
            continue
        kept.append(section._replace(start=first))
        waiting = None
    if waiting is None:
        return kept
    if not kept:
        return [Section(waiting, waiting, len(body), len(body), ())]
    return [*kept[:-1], kept[-1]._replace(end=len(body))]


def _is_blank(text: str) -> bool:
    """Whether there is nothing but blanks and horizontal rules."""
    return not text.strip("-*_ \t\r\n").strip()


def _joined(body: str, sections: Sequence[Section], cap: int, tiny: int) -> list[Section]:
    """Join neighbours of which one is tiny, if they are siblings or parent and child and fill at most two thirds."""
    groups: list[Section] = []
    for section in sections:
        last = groups[-1] if groups else None
        if last is not None and _may_join(body, last, section, cap, tiny):
            unnamed = last.content == last.start and not last.trail  # what stands above the first heading
            trail = section.trail if unnamed else _common(last.trail, section.trail)
            groups[-1] = Section(last.start, last.content, section.rest, section.end, trail)
        else:
            groups.append(section)
    return groups


def _may_join(body: str, left: Section, right: Section, cap: int, tiny: int) -> bool:
    sizes = [_size(body, section.start, section.end) for section in (left, right)]
    related = len(_common(left.trail, right.trail)) >= max(len(left.trail), len(right.trail)) - 1
    return min(sizes) < tiny and related and _size(body, left.start, right.end) <= 2 * cap // 3


def _common(left: Sequence[str], right: Sequence[str]) -> tuple[str, ...]:
    count = 0
    while count < min(len(left), len(right)) and left[count] == right[count]:
        count += 1
    return tuple(left[:count])


def _size(body: str, start: int, end: int) -> int:
    span = trim(body, Span(start, end))
    return span.end - span.start


def _split_section(body: str, section: Section, cap: int, tiny: int, grammar: Grammar) -> list[Span]:
    """One span if it fits; else the text is split and the headings stay with its first and last part."""
    whole = Span(section.start, section.end, section.trail)
    if _size(body, whole.start, whole.end) <= cap:
        return [whole]
    text = trim(body, Span(section.content, section.rest, section.trail))
    room = cap - (text.start - section.start) - (section.end - text.end)
    if room < cap // 2:  # headings longer than half a chunk are treated like text
        return split(body, whole, cap=cap, grammar=grammar)
    parts = _without_crumbs(body, split(body, text, cap=room, grammar=grammar), room, tiny)
    parts[0] = parts[0]._replace(start=section.start)
    parts[-1] = parts[-1]._replace(end=section.end)
    return parts


def _without_crumbs(body: str, parts: Sequence[Span], cap: int, tiny: int) -> list[Span]:
    kept = [parts[0]]
    for part in parts[1:]:
        sizes = (_size(body, *kept[-1][:2]), _size(body, *part[:2]))
        if min(sizes) < tiny and _size(body, kept[-1].start, part.end) <= cap:
            kept[-1] = kept[-1]._replace(end=part.end)
        else:
            kept.append(part)
    return kept
