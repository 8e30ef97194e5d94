"""Documents to chunks: Markdown by section, code by indentation, the rest by sentence and line.

Pure functions of a path and a text. Every piece is an exact slice of the text, pieces come in order and together
hold every character that is not blank (YAML front matter aside, which is read and never indexed).
"""

from pathlib import PurePosixPath

from knowledge.chunking.code import code_spans
from knowledge.chunking.context import contextual_prefix
from knowledge.chunking.frontmatter import front_matter
from knowledge.chunking.headings import Heading, markdown_headings, plain_headings, rst_headings
from knowledge.chunking.kinds import EXTENSIONS, NAMES, PROSE, Kind, kind_of
from knowledge.chunking.pieces import ChunkSizes, Grammar, Piece, Span, cut
from knowledge.chunking.sections import section_spans

__all__ = [
    "DEFAULT",
    "EXTENSIONS",
    "NAMES",
    "SEED",
    "ChunkSizes",
    "Piece",
    "chunk",
    "contextual_prefix",
    "front_matter",
    "kind_of",
    "title_of",
]

DEFAULT = ChunkSizes()
SEED = ChunkSizes(markdown=800, code=500, text=800, overlap=100)  # the sizes of klaude-proxy's dashboard


def chunk(path: str, body: str, *, limits: ChunkSizes = DEFAULT) -> list[Piece]:
    """Cut a page into pieces, in the way its name calls for; none for a blank page.

    `body` is the page as ingested, front matter included: offsets and lines count in it. A name that is not on the
    list of text kinds is cut as plain text. Time is linear in the size: about a second a megabyte at worst.
    """
    kind = kind_of(path) or "text"
    if kind == "code":
        spans = code_spans(path, body, cap=limits.code, tiny=limits.tiny, overlap=limits.overlap)
        return cut(body, spans, cap=limits.code)
    start = len(body) - len(front_matter(body)[1]) if kind in PROSE else 0
    cap = limits.markdown if kind == "markdown" else limits.text
    grammar: Grammar = "markdown" if kind == "markdown" else "text"
    headings = _headings(kind, body, start)
    if not headings:
        return cut(body, [Span(start, len(body))], cap=cap, grammar=grammar)
    spans = section_spans(body, headings, start=start, cap=cap, tiny=limits.tiny, grammar=grammar)
    return cut(body, spans, cap=cap, grammar=grammar)


def title_of(path: str, body: str) -> str:
    """The page's title: its first heading, else the front matter's `title`, else the file name."""
    kind = kind_of(path)
    if kind in PROSE:
        fields, text, _ = front_matter(body)
        headings = _headings(kind, body, len(body) - len(text))
        named = next((heading.title for heading in headings if heading.title), "") or fields.get("title")
        if named:
            return str(named)
    return PurePosixPath(path).name


def _headings(kind: Kind, body: str, start: int) -> list[Heading]:
    """The headings after offset `start`, what stands before it blanked out without moving a line."""
    if kind not in PROSE:
        return []
    text = "\n" * body.count("\n", 0, start) + body[start:]
    find = {"markdown": markdown_headings, "rst": rst_headings, "plain": plain_headings}[kind]
    return find(text)
