"""`POST /knowledge/ingest`, `GET /knowledge/stats`, `DELETE /knowledge/flush`: klaude-proxy's contract, with a key."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, Field, StringConstraints

from knowledge.ingest import GivenChunk, flush, ingest_chunks
from knowledge.search import stats
from proxy.api.application import Scope, api
from proxy.api.bodies import CleanedText, Strict, known_parameters
from proxy.api.door import MachineRequest
from proxy.api.sources import DEFAULT_SOURCE, refuse_other_sources
from proxy.errors import InvalidRequest

MOST_CHUNKS = 10_000

Source = Annotated[CleanedText, StringConstraints(min_length=1, max_length=100)]


class ChunkBody(Strict):
    """A chunk as its caller cut it."""

    content: CleanedText
    file_path: CleanedText
    chunk_index: int
    heading: list[CleanedText] = Field([], description="headings above it, outermost first")


class ChunksBody(Strict):
    """Chunks of any number of pages."""

    chunks: list[ChunkBody] = Field(max_length=MOST_CHUNKS)
    source: Source = DEFAULT_SOURCE
    replace: bool = Field(False, description="drop chunks of these paths that were not sent")


class ChunkErrorAnswer(BaseModel):
    """Why a chunk was not stored."""

    chunk: int = Field(description="its number in the request, from 0")
    reason: str


class ChunksAnswer(BaseModel):
    """What became of the chunks: skipped were kept out by a filter, failed broke a rule."""

    stored: int
    skipped: int
    failed: int
    total: int
    errors: list[ChunkErrorAnswer] = Field([], description="there only when a chunk was not stored")


class CollectionAnswer(BaseModel):
    """The corpus as a vector database would describe it."""

    collection: str
    points_count: int
    status: str


class DeletedAnswer(BaseModel):
    """How many chunks were deleted."""

    deleted: int


@api.post("/knowledge/ingest", auth=Scope("ingest"), response=ChunksAnswer, exclude_unset=True, tags=["ingest"])
def ingest(request: MachineRequest, body: ChunksBody) -> dict[str, Any]:
    """Store chunks; the same path and index again replaces that chunk."""
    refuse_other_sources(request.auth, body.source)
    given = [
        GivenChunk(chunk.content, chunk.file_path, chunk.chunk_index, tuple(chunk.heading)) for chunk in body.chunks
    ]
    counts = ingest_chunks(request.auth.tenant, given, source=body.source, replace=body.replace)
    answer: dict[str, Any] = {name: getattr(counts, name) for name in ("stored", "skipped", "failed", "total")}
    if counts.errors:
        answer["errors"] = [{"chunk": error.chunk, "reason": error.reason} for error in counts.errors]
    return answer


@api.get("/knowledge/stats", auth=Scope("ingest"), response=CollectionAnswer, tags=["ingest"])
def collection(request: MachineRequest) -> dict[str, Any]:
    """Say how many chunks there are."""
    tenant = request.auth.tenant
    return {"collection": tenant.slug, "points_count": stats(tenant).chunks, "status": "Green"}


@api.delete(
    "/knowledge/flush",
    auth=Scope("manage"),
    response=DeletedAnswer,
    tags=["ingest"],
    openapi_extra={"parameters": [{"name": "source", "in": "query", "schema": {"type": "string"}}]},
)
def flush_pages(request: MachineRequest) -> dict[str, int]:
    """Delete the indexed pages of a source, or of every source but `wiki`."""
    source = known_parameters(request, {"source"}).get("source")
    if source == "":
        raise InvalidRequest("source: is empty; leave it out to flush every source but wiki")
    refuse_other_sources(request.auth, source)
    return {"deleted": flush(request.auth.tenant, source=source, actor=request.auth.public_id)}
