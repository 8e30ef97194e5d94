"""Jobs: what callers see of them, giving up, marking pages."""

from __future__ import annotations

import pytest

from knowledge import embedding
from knowledge.embedding import EmbeddingFailed
from knowledge.ingest import NewDocument, run_documents, submit_documents
from knowledge.ingest.documents import ATTEMPTS
from knowledge.jobs import UnknownJob, job_report, mark_user_facing, start_job
from knowledge.models import JobFile
from knowledge.search import search
from tenants.facts import TenantFacts
from tenants.filters import KnowledgeFilter
from tenants.models import AuditEntry
from tenants.registry import set_tenant
from tenants.scope import tenant_scope
from tests.knowledge.ingested import counts, page, paths, report_of, upload, version

DOCUMENTS = [NewDocument(f"{name}.md", f"The {name} valve.") for name in ("brindle", "cuvex")]


def test_it_works(tenant: TenantFacts) -> None:
    job = submit_documents(tenant, [*DOCUMENTS, NewDocument("photo.png", b"\x89PNG")])
    queued = report_of(tenant, job.pk)
    run_documents(tenant, job.pk)
    done = report_of(tenant, job.pk, all_files=False)

    assert (queued["state"], queued["progress"], counts(queued)) == ("queued", 0.333, {"seen": 3, "skipped": 1})
    assert (done["state"], done["progress"]) == ("done", 1.0)
    assert set(done["counts"]) == {"seen", "indexed", "unchanged", "skipped", "quarantined", "failed"}
    assert counts(done) == {"seen": 3, "indexed": 2, "skipped": 1}
    assert done["files"] == [{"path": "photo.png", "state": "skipped", "reason": "kind .png is not read"}]
    assert done["summary"] == "2 pages, 0 visible to visitors"


def test_all_files_are_listed_on_request(tenant: TenantFacts) -> None:
    job = submit_documents(tenant, DOCUMENTS)
    run_documents(tenant, job.pk)

    assert [file["state"] for file in report_of(tenant, job.pk)["files"]] == ["indexed", "indexed"]


@pytest.mark.parametrize(
    "job_id",
    ["", "x", "0", "-1", "12", "9" * 19, "9" * 30, "٣", "0193aaaa-0000-7000-8000-000000000000", "1; --", "1.0"],
)
def test_an_unknown_or_malformed_id_is_none(tenant: TenantFacts, job_id: str) -> None:
    assert job_report(tenant, job_id) is None


def test_a_foreign_job_is_unknown(tenant: TenantFacts, rival: TenantFacts) -> None:
    job = submit_documents(tenant, DOCUMENTS)

    assert job_report(rival, str(job.pk)) is None
    with pytest.raises(UnknownJob):
        mark_user_facing(rival, job_id=str(job.pk), actor="spy")


def test_marking_shows_the_pages_to_visitors_by_hand(tenant: TenantFacts) -> None:
    job = submit_documents(tenant, DOCUMENTS)
    run_documents(tenant, job.pk)
    upload(tenant, "other.md", "The dolmar valve.")

    assert mark_user_facing(tenant, job_id=str(job.pk), actor="ann") == 2

    visible = search(tenant, "valve", filter=KnowledgeFilter(user_facing=True)).hits
    assert sorted(hit.path for hit in visible) == ["brindle.md", "cuvex.md"]
    assert report_of(tenant, job.pk)["summary"] == "2 pages, 2 visible to visitors"
    upload(tenant, "brindle.md", "The brindle valve, edited.", user_facing=False)
    assert page(tenant, "brindle.md").user_facing is True


def test_marking_again_changes_nothing(tenant: TenantFacts) -> None:
    job = submit_documents(tenant, DOCUMENTS)
    run_documents(tenant, job.pk)
    mark_user_facing(tenant, job_id=str(job.pk), actor="ann")
    before = version(tenant)

    assert mark_user_facing(tenant, job_id=str(job.pk), actor="ann") == 0

    with tenant_scope(tenant):
        entries = AuditEntry.objects.filter(tenant_id=tenant.id, action="pages.user_facing")
        assert [entry.actor for entry in entries] == ["ann"]
    assert version(tenant) == before


def test_visible_follows_the_tenants_rules(tenant: TenantFacts) -> None:
    open_tenant = set_tenant(tenant, {"unmarked_pages": "user-facing", "product": "alpha"}, actor="test")
    job = submit_documents(open_tenant, DOCUMENTS)
    run_documents(open_tenant, job.pk)
    upload(open_tenant, "brindle.md", "The brindle valve.", product="beta")

    assert report_of(open_tenant, job.pk)["summary"] == "2 pages, 1 visible to visitors"


def test_the_worker_is_tried_again_and_then_the_job_has_failed(
    tenant: TenantFacts, monkeypatch: pytest.MonkeyPatch
) -> None:
    _break_the_embedder(monkeypatch)
    job = submit_documents(tenant, DOCUMENTS)

    for _ in range(ATTEMPTS - 1):
        with pytest.raises(EmbeddingFailed):
            run_documents(tenant, job.pk)
    assert report_of(tenant, job.pk)["state"] == "running"
    run_documents(tenant, job.pk)

    report = report_of(tenant, job.pk)
    reason = "given up after 3 attempts: EmbeddingFailed: the service is down"
    assert (report["state"], report["reason"]) == ("failed", reason)
    assert report["files"][0] == {"path": "brindle.md", "state": "failed", "reason": reason}
    assert _bodies(tenant) == [None, None]


def test_a_job_whose_worker_dies_each_time_has_failed(tenant: TenantFacts) -> None:
    job = submit_documents(tenant, DOCUMENTS)

    starts = [start_job(tenant, job.pk, attempts=ATTEMPTS) for _ in range(ATTEMPTS + 1)]

    assert starts[-1] is None
    assert None not in starts[:-1]
    assert report_of(tenant, job.pk)["reason"] == "given up after 3 attempts: the worker ended each time"


def test_progress_makes_attempts_count_anew(tenant: TenantFacts) -> None:
    job = submit_documents(tenant, DOCUMENTS)
    for _ in range(ATTEMPTS):
        start_job(tenant, job.pk, attempts=ATTEMPTS)
    with tenant_scope(tenant):
        JobFile.objects.filter(tenant_id=tenant.id, job=job, ord=0).update(state="indexed", body=None)

    assert start_job(tenant, job.pk, attempts=ATTEMPTS) is not None
    run_documents(tenant, job.pk)
    assert paths(tenant) == ["cuvex.md"]


def _bodies(tenant: TenantFacts) -> list[object]:
    with tenant_scope(tenant):
        return [file.body for file in JobFile.objects.filter(tenant_id=tenant.id)]


def _break_the_embedder(monkeypatch: pytest.MonkeyPatch) -> None:
    def down(texts: object, *, role: object) -> object:
        raise EmbeddingFailed("the service is down")

    monkeypatch.setattr(embedding.provider(), "embed", down)
