"""Makers of a small corpus, through the index's own doors, with the hashing provider's vectors."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

from knowledge import index
from knowledge.embedding import Provider, current_spec, provider
from knowledge.models import Source
from tenants.facts import TenantFacts
from tenants.scope import tenant_scope


def make_source(tenant: TenantFacts, name: str = "docs", **fields: Any) -> Source:
    """Make a source, or return the one of that name."""
    with tenant_scope(tenant) as tenant_id:
        return Source.objects.get_or_create(tenant_id=tenant_id, name=name, defaults=fields)[0]


def make_chunks(texts: Sequence[str], *, prefix: str = "", embedder: Provider | None = None) -> list[index.ReadyChunk]:
    """Make finished chunks, one line apart from each other."""
    indexed = [index.indexed_text(prefix, text) for text in texts]
    vectors = (embedder or provider()).embed(indexed, role="document")
    return [
        index.ReadyChunk(
            ord=number,
            text=text,
            prefix=prefix,
            heading=("Guide",),
            first_line=2 * number + 1,
            last_line=2 * number + 1,
            embedding=vector,
        )
        for number, (text, vector) in enumerate(zip(texts, vectors, strict=True))
    ]


def make_fields(tenant: TenantFacts, path: str, texts: Sequence[str], **fields: Any) -> index.PageFields:
    """Make the fields of a page whose body is its chunks joined by blank lines."""
    body = "\n\n".join(texts)
    source = fields.pop("source", "docs")
    return index.PageFields(
        **{
            "source_id": make_source(tenant, source).id,
            "path": path,
            "title": path,
            "body": body,
            "content_hash": hashlib.sha256(body.encode()).hexdigest(),
            **fields,
        }
    )


def make_page(
    tenant: TenantFacts,
    path: str,
    texts: Sequence[str],
    *,
    prefix: str = "",
    embedder: Provider | None = None,
    **fields: Any,
) -> index.Published:
    """Stage and publish a page of these chunks."""
    page = make_fields(tenant, path, texts, **fields)
    model = embedder.spec.id if embedder else current_spec().id
    index.stage(
        tenant,
        source_id=page.source_id,
        path=path,
        content_hash=page.content_hash,
        model_id=model,
        chunks=make_chunks(texts, prefix=prefix, embedder=embedder),
    )
    return index.publish(tenant, page=page, model_id=model)
