"""Where the sections of a prose document begin, in Markdown, reStructuredText or plain text."""

import itertools
import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from markdown_it import MarkdownIt

LONGEST_PLAIN = 70  # characters of a line that may be a title without any mark
LONGEST_TITLE = 120


class Heading(NamedTuple):
    """A heading: its 0-based lines `[first, after)`, its level (1 is the highest) and its bare text."""

    first: int
    after: int
    level: int
    title: str


# Inline content is not parsed: only where headings stand matters, and it takes most of the time. Lists and quotes
# are left out for the same reason (10 s became 0.2 s on 1.6 MB of list items); a heading inside one is no section.
_PARSER = MarkdownIt("commonmark").enable("table").disable(["inline", "list", "blockquote", "reference"])
_UNDERLINE = re.compile(r"([=\-`:.'\"~^_*+#<>])\1{2,}\s*")
_FENCE = re.compile(r" {0,3}(```|~~~)")


def markdown_headings(body: str) -> list[Heading]:
    """The document's top-level headings; lines that only look like titles when there is no marked one."""
    tokens = _PARSER.parse(re.sub(r"\r(?!\n)", " ", body))
    marked = []
    for opening, inline in itertools.pairwise(tokens):
        if opening.type == "heading_open" and opening.map and _is_heading(opening.markup, inline.content):
            title = bare(inline.content)
            marked.append(Heading(opening.map[0], opening.map[1], int(opening.tag[1:]), title))
    return marked or plain_headings(body)


def _is_heading(markup: str, content: str) -> bool:
    """Whether a heading by the grammar is one by intent.

    `text` directly above `---` is a heading to CommonMark, but writers who leave no blank line mean a rule: a
    paragraph, a table row, a list item or a full sentence is not taken for a title.
    """
    if markup.startswith("#"):
        return True
    one_line = "\n" not in content and len(content) <= LONGEST_TITLE
    return (
        one_line and not re.match(r"[-*+>|]|\d+[.)]\s", content) and not content.rstrip().endswith((".", ";", ",", ":"))
    )


def bare(title: str) -> str:
    """A heading's text without links, emphasis and code marks, on one line."""
    text = re.sub(r"!?\[([^\[\]]*)\]\([^()]*\)", r"\1", title)
    text = re.sub(r"\*\*|__(?=\S)|(?<=\S)__|`|~~", "", text)
    return " ".join(text.split())[:LONGEST_TITLE]


def plain_headings(body: str) -> list[Heading]:
    """Lone short lines between blank lines, for documents pasted without their marks.

    Taken only where it is safe: at least three, none directly after another, and no more than every second block,
    so that verses and lists of short lines have none. The first block is the document's title if it is such a line.
    """
    blocks = list(_blocks(body.split("\n")))
    single = [after - first == 1 and _is_title(text) for first, after, text in blocks]
    titles = [
        Heading(first, after, 1 if index == 0 else 2, bare(text))
        for index, (first, after, text) in enumerate(blocks)
        if single[index] and index + 1 < len(blocks) and not single[index + 1]
    ]
    return titles if len(titles) >= 3 and len(titles) * 2 <= len(blocks) + 1 else []


def _blocks(rows: Sequence[str]) -> Iterator[tuple[int, int, str]]:
    """Runs of lines between blank ones as (first, after, first line); a fenced run is one block."""
    first, fence = -1, ""
    for index, row in enumerate([*rows, ""]):
        mark = _FENCE.match(row)
        if first >= 0 and not fence and not row.strip():
            yield first, index, rows[first]
            first = -1
        elif first < 0 and row.strip():
            first = index
        if mark and (not fence or mark[1] == fence):
            fence = "" if fence else mark[1]
    if first >= 0 and fence:
        yield first, len(rows), rows[first]


def _is_title(row: str) -> bool:
    text = row.strip()
    if not text or len(text) > LONGEST_PLAIN or row[:1].isspace():
        return False
    starts = text[0].isupper() or text[0].isdigit() or text[0] in "¿¡"
    return starts and text[-1] not in ".,;:!{}[](|=>" and not re.search(r"[\t{}|=<>;#]|\w\(|https?://", text)


def rst_headings(body: str) -> list[Heading]:
    """Titles of reStructuredText: underlined, perhaps overlined; the order of the marks gives the levels."""
    rows = body.split("\n")
    levels: dict[tuple[str, bool], int] = {}
    found: list[Heading] = []
    for index in range(1, len(rows)):
        title, line = rows[index - 1].strip(), rows[index]
        if (
            not title
            or not _UNDERLINE.fullmatch(line)
            or _UNDERLINE.fullmatch(title)
            or len(line.rstrip()) < len(title)
        ):
            continue
        over = index >= 2 and rows[index - 2].rstrip() == line.rstrip()
        level = levels.setdefault((line[0], over), len(levels) + 1)
        found.append(Heading(index - 2 if over else index - 1, index + 1, level, bare(title)))
    return found
