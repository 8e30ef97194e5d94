"""`POST /v1/query` and `GET /v1/stats`: hits for a question, and what the corpus holds."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, Field, StringConstraints

from knowledge.search import ENGINE, MOST_HITS, Found, Hit, search, stats
from proxy.api.application import Scope, api
from proxy.api.bodies import PlainText, Strict
from proxy.api.door import MachineRequest
from proxy.callers import admit
from proxy.errors import InvalidRequest
from tenants.facts import Caller
from tenants.filters import KnowledgeFilter

LONGEST_QUERY = 12_000
LONGEST_SNIPPET = 480
# claw-analog refuses phases that it does not know; `engine` says what it really is.
PHASE, PHASE_EMPTY = "1-sqlite", "1-sqlite-empty"
_EMBED_SECONDS = 5.0  # then the text decides alone: a busy encoder must not hold the answer
_LONGEST_SEARCH_MS = 10_000

Query = Annotated[PlainText, StringConstraints(min_length=1, max_length=LONGEST_QUERY)]
Name = Annotated[PlainText, StringConstraints(max_length=1_000)]


class QueryBody(Strict):
    """What is asked. Filters act before ranking and can only narrow what the key may see."""

    query: Query
    top_k: int | None = Field(None, ge=1, description=f"8 unless given; more than {MOST_HITS} is {MOST_HITS}")
    source_type: Name | None = None
    app: Name | None = None
    product: Name | None = None
    path_prefix: Name | None = None
    user_facing: bool | None = Field(None, description="true: user-facing pages only")
    min_evidence: float | None = Field(None, ge=0, le=1, description="drops hits whose evidence is lower")
    full_text: bool | None = Field(None, description="whole chunks as ingested; needs the scope `pages`")
    explain: bool | None = Field(None, description="adds how the answer came about")


class HitPage(BaseModel):
    """The page of a hit."""

    slug: str
    title: str
    url: str | None


class HitAnswer(BaseModel):
    """A chunk that was found."""

    path: str
    snippet: str
    score: float
    evidence: float
    chunk_id: str
    page: HitPage
    source: str
    source_type: str
    heading: list[str]
    lines: list[int] = Field(description="first and last line of the page as ingested, from 1, inclusive")
    ranks: dict[str, int | None]
    scores: dict[str, float | None]


class QueryAnswer(BaseModel):
    """Hits, the best first."""

    hits: list[HitAnswer]
    phase: str
    engine: str
    corpus_version: int
    took_ms: float
    degraded: list[str] = Field([], description="there only when something was missing, such as the vector")
    explain: dict[str, Any] = Field({}, description="there only when asked for")


class StatsAnswer(BaseModel):
    """What the tenant's corpus holds."""

    chunks: int
    pages: int
    sources: int
    phase: str
    engine: str
    embedding_model: str
    corpus_version: int
    last_ingest_at: str | None
    by_source_type: dict[str, int]


@api.post("/v1/query", auth=Scope("query"), response=QueryAnswer, exclude_unset=True, tags=["retrieval"])
def query(request: MachineRequest, body: QueryBody) -> dict[str, Any]:
    """Find the chunks that answer a question."""
    caller = request.auth
    if body.full_text:
        admit(caller, slug=request.slug, scope="pages")
    if not body.query.strip():
        raise InvalidRequest("query: is blank; ask something")
    allowed = caller.filter.narrowed(asked_filter(body))
    if allowed is None:
        return _nothing(caller)
    top_k = min(body.top_k or 8, MOST_HITS)
    found = search(
        caller.tenant,
        body.query,
        filter=allowed,
        top_k=top_k,
        min_evidence=body.min_evidence or 0.0,
        embed_timeout=_EMBED_SECONDS,
        statement_timeout_ms=_LONGEST_SEARCH_MS,
    )
    return _answer(caller, body, found)


@api.get("/v1/stats", auth=Scope("query"), response=StatsAnswer, tags=["retrieval"])
def corpus_stats(request: MachineRequest) -> dict[str, Any]:
    """Say what the corpus holds."""
    held = stats(request.auth.tenant)
    return {
        "chunks": held.chunks,
        "pages": held.pages,
        "sources": held.sources,
        "phase": phase(held.chunks),
        "engine": ENGINE,
        "embedding_model": held.embedding_model,
        "corpus_version": held.corpus_version,
        "last_ingest_at": held.last_ingest_at.isoformat() if held.last_ingest_at else None,
        "by_source_type": held.by_source_type,
    }


def asked_filter(body: QueryBody) -> KnowledgeFilter:
    """Return the restriction that a request asks for."""
    lists = {"source_types": body.source_type, "apps": body.app, "products": body.product}
    return KnowledgeFilter(
        **{name: (value,) for name, value in lists.items() if value},
        path_prefix=body.path_prefix or "",
        user_facing=bool(body.user_facing),
    )


def phase(chunks: int) -> str:
    """Return the phase of a corpus of so many chunks."""
    return PHASE if chunks else PHASE_EMPTY


def shortened(text: str, *, most: int = LONGEST_SNIPPET) -> str:
    """Return the head of a text, at most so many characters, cut between words where there are any."""
    if len(text) <= most:
        return text
    head = text[: most - 1]
    cut = max(head.rfind(" "), head.rfind("\n"))
    return head[: cut if cut > most // 2 else None].rstrip() + "…"


def _nothing(caller: Caller) -> dict[str, Any]:
    """Answer a question whose filter and the key's have nothing in common."""
    held = stats(caller.tenant)
    return {
        "hits": [],
        "phase": phase(held.chunks),
        "engine": ENGINE,
        "corpus_version": held.corpus_version,
        "took_ms": 0.0,
    }


def _answer(caller: Caller, body: QueryBody, found: Found) -> dict[str, Any]:
    answer: dict[str, Any] = {
        "hits": [_hit(hit, full_text=bool(body.full_text)) for hit in found.hits],
        "phase": phase(found.chunks),
        "engine": ENGINE,
        "corpus_version": found.corpus_version,
        "took_ms": round(found.took_ms, 1),
    }
    if found.degraded:
        answer["degraded"] = list(found.degraded)
    if body.explain:
        answer["explain"] = {
            "best_evidence": found.evidence,
            "gate": caller.tenant.gate,
            "answered": found.evidence >= caller.tenant.gate,
            "dense_weight": caller.tenant.dense_weight,
            "prefixes": {hit.chunk_id: hit.prefix for hit in found.hits},
        }
    return answer


def _hit(hit: Hit, *, full_text: bool) -> dict[str, Any]:
    return {
        "path": hit.path,
        "snippet": hit.text if full_text else shortened(hit.text),
        "score": hit.score,
        "evidence": hit.evidence,
        "chunk_id": hit.chunk_id,
        "page": {"slug": hit.slug, "title": hit.title, "url": hit.url},
        "source": hit.source,
        "source_type": hit.source_type,
        "heading": list(hit.heading),
        "lines": list(hit.lines),
        "ranks": hit.ranks,
        "scores": hit.scores,
    }
