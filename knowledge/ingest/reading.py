"""From a document's bytes to chunks without vectors, or to the reason why it is not indexed. No database."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from knowledge.chunking import Piece, chunk, contextual_prefix, front_matter, title_of
from knowledge.chunking.kinds import PROSE, extension, kind_of
from knowledge.ingest.flags import merged
from knowledge.ingest.texts import path_fault
from knowledge.models import FileState
from knowledge.screening import Verdict, personal, screen
from knowledge.walking import NotText, clean, decode

# Part of every content hash: raise it when chunking changes, so that pages are made again.
RULES = 1
LONGEST_TITLE = 500
_OFFICE = ("pdf", "docx", "pptx", "xlsx", "doc", "ppt", "xls", "odt", "epub")
_SHOWN_REASONS = 3


@dataclass(frozen=True, slots=True)
class Left:
    """A document that is not indexed: the state of its file and the reason, for people."""

    state: str
    reason: str


@dataclass(frozen=True, slots=True)
class DraftChunk:
    """A chunk that still lacks its vector."""

    ord: int
    text: str
    prefix: str
    heading: tuple[str, ...]
    first_line: int
    last_line: int


@dataclass(frozen=True, slots=True)
class Draft:
    """A page ready to be embedded. left_out says which parts were kept out, for people."""

    path: str
    title: str
    body: str
    content_hash: str
    chunks: tuple[DraftChunk, ...]
    flags: Mapping[str, object] = field(default_factory=dict)
    slug: str = ""
    left_out: str = ""


@dataclass(frozen=True, slots=True)
class Asked:
    """What a request says about a document: flags of its own win over its front matter, general ones don't."""

    title: str = ""
    flags: Mapping[str, object] = field(default_factory=dict)
    general_flags: Mapping[str, object] = field(default_factory=dict)


def refusal(path: str, size: int, *, limit: int, is_text: bool) -> Left | None:
    """Return why a document is not even read, judged by its name and size in bytes, or None.

    is_text: the caller gave characters, so any name will do.
    """
    if fault := path_fault(path):
        return Left(FileState.FAILED, fault)
    if not is_text and kind_of(path) is None:
        named = extension(path)
        shown = f"kind .{named}" if named else "a file without an extension"
        return Left(FileState.SKIPPED, f"{shown} is not read{' yet' if named in _OFFICE else ''}")
    if size > limit:
        return Left(FileState.SKIPPED, f"larger than {limit:,} bytes (KB_MAX_FILE_BYTES)")
    return None


def content_hash(content: str, *, title: str) -> str:
    """Return the hash by which a document counts as unchanged."""
    return hashlib.sha256(f"{RULES}\n{title}\n{content}".encode()).hexdigest()


def text_of(content: bytes) -> tuple[str, str] | Left:
    """Return a document's characters and a note when some had to be replaced, or why there are none."""
    try:
        text, note = decode(content)
    except NotText as error:
        return Left(FileState.SKIPPED, str(error) or "binary file")
    return (text, note or "") if text.strip() else Left(FileState.SKIPPED, "empty")


def flags_of(path: str, text: str, asked: Asked) -> dict[str, object]:
    """Return a document's flags: the request's for it, else its front matter's, else the general ones."""
    return merged(asked.general_flags, _front_matter(path, text), asked.flags)


def read(path: str, text: str, *, asked: Asked) -> Draft | Left:
    """Cut a document into chunks and keep out what should not be retrieved."""
    fields = _front_matter(path, text)
    title = clean(asked.title or str(fields.get("title", ""))).strip()
    judged = [(piece, screen(piece.text, path=path) or personal(piece.text)) for piece in chunk(path, text)]
    kept = [piece for piece, verdict in judged if _may_stay(verdict)]
    if not judged:
        return Left(FileState.SKIPPED, "no text in it")
    if not kept:
        return Left(FileState.QUARANTINED, _said(judged))
    return Draft(
        path=path,
        title=(title or clean(title_of(path, text)))[:LONGEST_TITLE],
        body=_without(text, [piece for piece, verdict in judged if not _may_stay(verdict)]),
        content_hash=content_hash(text, title=asked.title),
        chunks=tuple(_draft(number, piece, path, title) for number, piece in enumerate(kept)),
        flags=flags_of(path, text, asked),
        slug=str(fields.get("slug", "")),
        left_out=_said(judged),
    )


def _front_matter(path: str, text: str) -> dict[str, object]:
    return front_matter(text)[0] if kind_of(path) in PROSE else {}


def _may_stay(verdict: Verdict | None) -> bool:
    return verdict is None or verdict.kind == "personal"  # personal data is reported, not kept out


def _draft(number: int, piece: Piece, path: str, title: str) -> DraftChunk:
    prefix = contextual_prefix(path, piece.trail, title)
    return DraftChunk(number, piece.text, prefix, tuple(piece.trail), piece.first_line, piece.last_line)


def _without(text: str, pieces: list[Piece]) -> str:
    """Blank out what is kept out, line ends aside: no page shows it, and line numbers stay."""
    for piece in pieces:
        end = piece.start + len(piece.text)
        text = text[: piece.start] + re.sub(r"[^\n]", " ", piece.text) + text[end:]
    return text


def _said(judged: list[tuple[Piece, Verdict | None]]) -> str:
    said = [
        f"lines {piece.first_line}-{piece.last_line}: {verdict.reason}"
        for piece, verdict in judged
        if verdict is not None
    ]
    more = f"; and {len(said) - _SHOWN_REASONS} more" if len(said) > _SHOWN_REASONS else ""
    return "; ".join(said[:_SHOWN_REASONS]) + more
