"""Writing the corpus: chunks are staged in small commits, a page is published in one transaction."""

from knowledge.index.deleting import delete_pages
from knowledge.index.flags import UnknownFlag, set_flags
from knowledge.index.publishing import MissingEmbedding, NothingStaged, PageFields, Published, publish
from knowledge.index.staging import (
    BadVector,
    ChunkTooLong,
    ReadyChunk,
    clear_staged,
    indexed_text,
    live_hashes,
    stage,
    staged,
    text_hash,
)
from knowledge.index.statistics import refreeze

__all__ = [
    "BadVector",
    "ChunkTooLong",
    "MissingEmbedding",
    "NothingStaged",
    "PageFields",
    "Published",
    "ReadyChunk",
    "UnknownFlag",
    "clear_staged",
    "delete_pages",
    "indexed_text",
    "live_hashes",
    "publish",
    "refreeze",
    "set_flags",
    "stage",
    "staged",
    "text_hash",
]
