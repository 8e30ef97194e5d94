"""Putting text into a tenant's corpus and taking it out: chunks, documents, folders.

`ingest_chunks` works while its caller waits, `submit_documents` keeps documents for a worker,
`ingest_folder` works in the process that asks. All of them stage finished chunks in small commits and
publish each page in one transaction (knowledge/index/).
"""

from knowledge.ingest.chunks import ChunkCounts, ChunkError, GivenChunk, ingest_chunks
from knowledge.ingest.documents import JobIsRunning, NewDocument, run_documents, submit_documents
from knowledge.ingest.flags import BadFlag, Flags
from knowledge.ingest.folder import OtherFolder, SourceIsBusy, ingest_folder
from knowledge.ingest.pipeline import Interrupted
from knowledge.ingest.removal import NothingNamed, delete_documents, flush
from knowledge.ingest.sources import BadSource

__all__ = [
    "BadFlag",
    "BadSource",
    "ChunkCounts",
    "ChunkError",
    "Flags",
    "GivenChunk",
    "Interrupted",
    "JobIsRunning",
    "NewDocument",
    "NothingNamed",
    "OtherFolder",
    "SourceIsBusy",
    "delete_documents",
    "flush",
    "ingest_chunks",
    "ingest_folder",
    "run_documents",
    "submit_documents",
]
