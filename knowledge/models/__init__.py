"""The tables of the corpus.

A source holds pages, a page holds chunks. What search reads of a chunk lies in narrow tables of its own
(ChunkTerms for the text lane, Embedding for the vector lane), so that a lane never reads texts. All of
these hold live rows only: a page is gathered in StagedChunk and swapped in by one transaction.
"""

from knowledge.models.chunks import Chunk, ChunkTerms, Embedding, StagedChunk
from knowledge.models.corpus import Corpus, EmbeddingModel, EmbeddingSet, Lexeme
from knowledge.models.jobs import FileState, Job, JobFile, JobKind, JobState
from knowledge.models.pages import FLAGS, MadeBy, Page, Source, SourceKind

__all__ = [
    "FLAGS",
    "Chunk",
    "ChunkTerms",
    "Corpus",
    "Embedding",
    "EmbeddingModel",
    "EmbeddingSet",
    "FileState",
    "Job",
    "JobFile",
    "JobKind",
    "JobState",
    "Lexeme",
    "MadeBy",
    "Page",
    "Source",
    "SourceKind",
    "StagedChunk",
]
