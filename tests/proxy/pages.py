"""Pages for tests of the wire, indexed through the corpus' own door."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from knowledge.embedding import current_spec, embed_documents
from knowledge.index import PageFields, ReadyChunk, indexed_text, publish, stage
from knowledge.models import Source
from tenants.facts import TenantFacts
from tenants.scope import tenant_scope

RELAY = "The Veltrane relay listens on port 47113 and refuses plain text connections."
PORT = "Which port does the Veltrane relay listen on?"
REFUNDS = "An Orbel subscription can be refunded within 19 days when form QF-208 is attached."
REFUND = "Within how many days can an Orbel subscription be refunded?"
PRESS = "Error E-417 on the Tessaly press means that the brine filter BF-6 must be replaced."
ERROR = "What does error E-417 on the Tessaly press mean?"
OFF_TOPIC = "Write a haiku about autumn rain on an empty railway platform."


def index_page(tenant: TenantFacts, path: str, *texts: str, source: str = "api", app: str = "") -> None:
    """Index a page whose chunks are these texts, each on lines of its own with a blank line between."""
    with tenant_scope(tenant):
        row, _ = Source.objects.get_or_create(tenant_id=tenant.id, name=source)
    model, body = current_spec().id, "\n\n".join(texts)
    content_hash = hashlib.sha256(f"{path}\0{app}\0{body}".encode()).hexdigest()
    chunks = _chunks(path, texts)
    stage(tenant, source_id=row.id, path=path, content_hash=content_hash, model_id=model, chunks=chunks)
    page = PageFields(source_id=row.id, path=path, title=path, body=body, content_hash=content_hash, flags={"app": app})
    publish(tenant, page=page, model_id=model)


def index_knowledge(tenant: TenantFacts) -> None:
    """Index three pages of facts among plain ones."""
    index_page(tenant, "ops/relay.md", RELAY, "Changes are announced one working day ahead on the board.")
    index_page(tenant, "finance/refunds.md", REFUNDS, "Weekend work needs the consent of the duty phone.")
    index_page(tenant, "hardware/press.md", PRESS, "Spare parts are kept in drawer nine.")
    for number in range(8):
        index_page(tenant, f"notes/{number}.md", f"Note {number}: visitors may look at panel {number}, never open it.")


def _chunks(path: str, texts: Sequence[str]) -> list[ReadyChunk]:
    vectors = embed_documents([indexed_text(path, text) for text in texts])
    chunks, line = [], 1
    for number, text in enumerate(texts):
        last = line + text.count("\n")
        chunks.append(ReadyChunk(number, text, path, (), line, last, vectors[number]))
        line = last + 2
    return chunks
