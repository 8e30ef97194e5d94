"""Documents handed over by a request and indexed by a worker."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.db import connection, transaction

from knowledge import index
from knowledge.ingest import (
    BadFlag,
    Flags,
    Interrupted,
    JobIsRunning,
    NewDocument,
    run_documents,
    submit_documents,
)
from knowledge.ingest.exclusive import held
from knowledge.jobs import job_report
from knowledge.models import JobFile, JobState
from knowledge.search import search, stats
from tenants.facts import TenantFacts
from tenants.filters import KnowledgeFilter
from tenants.scope import tenant_scope
from tests.knowledge.ingested import (
    chunks,
    counts,
    holders,
    job_of,
    long_page,
    outcome,
    page,
    paths,
    staged,
    upload,
    version,
)

PAGE = "# Garnet\n\nThe harwick valve opens at dawn.\n\n## Care\n\nOil the imberly joint.\n"
TALK = "As an AI language model, I don't have access to your files.\n"
SECRET = "AKIA" + "IOSFODNN7QRSTUVW"


def test_it_works(tenant: TenantFacts) -> None:
    report = upload(tenant, "docs/garnet.md", PAGE, title="Garnet guide", source_type="doc", app="racks")

    assert (report["state"], report["progress"], counts(report)) == ("done", 1.0, {"seen": 1, "indexed": 1})
    found = page(tenant, "docs/garnet.md")
    assert (found.title, found.source_type, found.app, found.body) == ("Garnet guide", "doc", "racks", PAGE)
    assert holders(tenant, "harwick") == ["docs/garnet.md"]


def test_what_was_handed_over_waits_in_the_database_and_goes_when_it_is_indexed(tenant: TenantFacts) -> None:
    job = submit_documents(tenant, [NewDocument("a.md", PAGE)])
    with tenant_scope(tenant):
        waiting = JobFile.objects.get(tenant_id=tenant.id, job=job)
    assert bytes(waiting.body or b"") == PAGE.encode()

    run_documents(tenant, job.pk)

    with tenant_scope(tenant):
        assert JobFile.objects.get(tenant_id=tenant.id, job=job).body is None


def test_the_queue_carries_ids_only_and_comes_and_goes_with_the_transaction(tenant: TenantFacts) -> None:
    with tenant_scope(tenant):
        lost = submit_documents(tenant, [NewDocument("a.md", PAGE)])
        transaction.set_rollback(True)
    kept = submit_documents(tenant, [NewDocument("a.md", PAGE)])

    assert _queued(lost.pk) == []
    assert _queued(kept.pk) == [{"tenant_id": str(tenant.id), "job_id": kept.pk}]


def test_the_same_again_is_unchanged(tenant: TenantFacts) -> None:
    upload(tenant, "a.md", PAGE)
    before = version(tenant)

    report = upload(tenant, "a.md", PAGE)

    assert counts(report) == {"seen": 1, "unchanged": 1}
    assert version(tenant) == before


def test_an_edit_replaces_the_page_and_keeps_the_chunks_that_stayed(tenant: TenantFacts) -> None:
    long = long_page(sections=5)
    upload(tenant, "a.md", long)
    before = {chunk.text: chunk.pk for chunk in chunks(tenant, "a.md")}

    upload(tenant, "a.md", long.replace("harrow3q", "jasmond"))

    after = {chunk.text: chunk.pk for chunk in chunks(tenant, "a.md")}
    assert holders(tenant, "jasmond") == ["a.md"]
    assert holders(tenant, "harrow3q") == []
    assert len(set(before.values()) & set(after.values())) == len(before) - 1


def test_a_new_title_is_a_change(tenant: TenantFacts) -> None:
    upload(tenant, "a.md", PAGE, title="One")

    assert counts(upload(tenant, "a.md", PAGE, title="Two")) == {"seen": 1, "indexed": 1}
    assert page(tenant, "a.md").title == "Two"


def test_front_matter_speaks_for_the_page_and_is_not_indexed(tenant: TenantFacts) -> None:
    front = "---\ntitle: Rack guide\napp: racks\nuser_facing: true\nlanguage: es\n---\n"

    upload(tenant, "a.md", f"{front}\nThe harwick valve.\n")

    found = page(tenant, "a.md")
    assert (found.title, found.app, found.user_facing, found.language) == ("Rack guide", "racks", True, "es")
    assert [(chunk.text, chunk.first_line) for chunk in chunks(tenant, "a.md")] == [("The harwick valve.", 8)]


def test_front_matter_names_the_page_where_the_name_is_free(tenant: TenantFacts) -> None:
    for path in ("a.md", "b.md"):
        upload(tenant, path, "---\nslug: Racks & more\n---\nThe harwick valve.\n")

    assert [page(tenant, path).slug for path in ("a.md", "b.md")] == ["racks-more", "racks-more-api"]


def test_the_request_outranks_front_matter_and_a_hand_outranks_both(tenant: TenantFacts) -> None:
    front = "---\napp: racks\nproduct: alpha\nsource_type: doc\n---\n"
    upload(tenant, "a.md", f"{front}One.\n")
    index.set_flags(tenant, page_ids=[page(tenant, "a.md").pk], by_hand=True, product="by hand")

    upload(tenant, "a.md", f"{front}Two.\n", app="asked", product="asked")

    found = page(tenant, "a.md")
    assert (found.app, found.product, found.source_type) == ("asked", "by hand", "doc")


def test_flags_of_an_unchanged_page_follow_the_request(tenant: TenantFacts) -> None:
    upload(tenant, "a.md", PAGE, app="racks", user_facing=True)
    before = version(tenant)

    report = upload(tenant, "a.md", PAGE, app="monitoring")

    found = page(tenant, "a.md")
    assert counts(report) == {"seen": 1, "unchanged": 1}
    assert (found.app, found.user_facing) == ("monitoring", None)
    assert version(tenant) == before + 1


def test_flags_filter_searches(tenant: TenantFacts) -> None:
    upload(tenant, "a.md", PAGE, user_facing=True)
    upload(tenant, "b.md", PAGE)

    hits = search(tenant, "harwick", filter=KnowledgeFilter(user_facing=True)).hits
    assert {hit.path for hit in hits} == {"a.md"}


def test_a_part_that_is_kept_out_is_shown_nowhere(tenant: TenantFacts) -> None:
    first, keys, last = "The harwick valve. " * 40, f"{'The key: ' * 60}{SECRET}", "Last. " * 120
    body = f"# Guide\n\n{first}\n\n## Keys\n\n{keys}\n\n## End\n\n{last}\n"

    report = upload(tenant, "a.md", body)

    state, reason = outcome(report, "a.md")
    found = page(tenant, "a.md")
    assert state == "indexed"
    assert "lines 5-7" in reason
    assert SECRET not in found.body + reason + "".join(chunk.text for chunk in chunks(tenant, "a.md"))
    assert found.body.count("\n") == body.count("\n")
    assert chunks(tenant, "a.md")[-1].last_line == 11


def test_a_document_of_which_nothing_may_stay_is_quarantined_and_its_old_page_goes(tenant: TenantFacts) -> None:
    upload(tenant, "a.md", PAGE)

    report = upload(tenant, "a.md", TALK)

    assert counts(report) == {"seen": 1, "quarantined": 1}
    assert outcome(report, "a.md")[1]
    assert paths(tenant) == []


def test_personal_data_is_reported_and_stays(tenant: TenantFacts) -> None:
    report = upload(tenant, "a.md", "# Who\n\nWrite to jane.roe@acme-corp.com about the harwick valve.\n")

    assert outcome(report, "a.md") == ("indexed", "lines 1-3: it holds 1 e-mail address")
    assert holders(tenant, "harwick") == ["a.md"]


@pytest.mark.parametrize(
    ("path", "content", "state", "reason"),
    [
        ("photo.png", b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 8, "skipped", "kind .png is not read"),
        ("book.pdf", b"%PDF-1.7", "skipped", "kind .pdf is not read yet"),
        ("noextension", b"text", "skipped", "a file without an extension is not read"),
        ("binary.md", b"wexcombe\0\x01\x02" * 500, "skipped", "binary"),
        ("latin.md", "niño año señal ".encode("utf-16-le") * 50, "skipped", ""),
        ("empty.md", b"", "skipped", "empty"),
        ("blank.md", " \n\t\n", "skipped", "empty"),
        ("front.md", "---\ntitle: Only this\n---\n", "skipped", "no text"),
        ("big.md", b"The zennor line.\n" * 200_000, "skipped", "KB_MAX_FILE_BYTES"),
        ("x" * 1_100 + ".md", "text", "failed", "path"),
        (" ", "text", "failed", "path"),
    ],
)
def test_what_cannot_be_read_has_a_reason(
    tenant: TenantFacts, path: str, content: bytes | str, state: str, reason: str
) -> None:
    report = upload(tenant, path, content)

    assert counts(report) == {"seen": 1, state: 1}
    assert report["state"] == "done"
    assert reason in outcome(report, path[:1_024])[1]
    assert stats(tenant).pages == 0


def test_given_characters_are_text_whatever_the_path(tenant: TenantFacts) -> None:
    upload(tenant, "faq/how-to", "The harwick valve.")

    assert holders(tenant, "harwick") == ["faq/how-to"]


def test_characters_that_cannot_be_stored_are_replaced(tenant: TenantFacts) -> None:
    upload(tenant, "a\0.md", "nul \0 and \ud800 lone", title="t\0")

    found = page(tenant, "a\ufffd.md")
    assert (found.body, found.title) == ("nul \ufffd and \ufffd lone", "t\ufffd")


def test_a_few_bytes_that_are_not_utf8_are_no_matter(tenant: TenantFacts) -> None:
    report = upload(tenant, "a.md", b"The yarrowby marker, caf\xe9.\n")

    assert outcome(report, "a.md") == ("indexed", "bytes that are not UTF-8 were replaced")
    assert holders(tenant, "yarrowby") == ["a.md"]


def test_a_minified_line_is_indexed(tenant: TenantFacts) -> None:
    line = "var vexley=1;" + "".join(f"function f{n}(a){{return a*{n}}};" for n in range(4_000))

    assert counts(upload(tenant, "min.js", line)) == {"seen": 1, "indexed": 1}
    assert holders(tenant, "vexley") == ["min.js"]


def test_a_flag_that_is_too_long_is_refused_and_nothing_is_kept(tenant: TenantFacts) -> None:
    with pytest.raises(BadFlag, match="source_type"):
        submit_documents(tenant, [NewDocument("a.md", PAGE, flags=Flags(source_type="x" * 33))])

    with tenant_scope(tenant):
        assert not JobFile.objects.filter(tenant_id=tenant.id).exists()


def test_a_stopped_job_goes_on_from_what_is_staged(tenant: TenantFacts) -> None:
    job = submit_documents(tenant, [NewDocument("long.md", long_page(sections=200))])

    with pytest.raises(Interrupted):
        run_documents(tenant, job.pk, must_stop=lambda: bool(staged(tenant)))
    kept = staged(tenant)
    assert (paths(tenant), job_of(tenant, job.pk).state) == ([], JobState.QUEUED)
    run_documents(tenant, job.pk)

    assert kept
    assert kept <= {chunk.pk for chunk in chunks(tenant, "long.md")}
    assert holders(tenant, "harrow7q") == ["long.md"]
    assert staged(tenant) == set()


def test_a_job_is_worked_on_by_one_process_only(tenant: TenantFacts) -> None:
    job = submit_documents(tenant, [NewDocument("a.md", PAGE)])

    with held(f"job {tenant.id} {job.pk}"), pytest.raises(JobIsRunning):
        run_documents(tenant, job.pk)


def test_a_job_that_has_ended_is_left_alone(tenant: TenantFacts) -> None:
    job = submit_documents(tenant, [NewDocument("a.md", PAGE)])
    run_documents(tenant, job.pk)
    before = job_of(tenant, job.pk).finished_at

    run_documents(tenant, job.pk)

    assert job_of(tenant, job.pk).finished_at == before


def test_another_tenants_job_is_unknown(tenant: TenantFacts, rival: TenantFacts) -> None:
    job = submit_documents(tenant, [NewDocument("a.md", PAGE)])

    run_documents(rival, job.pk)

    assert job_report(rival, str(job.pk)) is None
    assert job_of(tenant, job.pk).state == JobState.QUEUED


def test_pages_show_while_later_documents_still_wait(tenant: TenantFacts) -> None:
    documents = [NewDocument(f"{number}.md", f"The word{number}q.") for number in range(70)]
    job = submit_documents(tenant, documents)

    with pytest.raises(Interrupted):
        run_documents(tenant, job.pk, must_stop=lambda: bool(paths(tenant)))

    report: Any = job_report(tenant, str(job.pk))
    assert 0 < report["progress"] < 1
    assert report["counts"]["indexed"] == len(paths(tenant))


def _queued(job_id: int) -> list[Any]:
    with connection.cursor() as cursor:
        cursor.execute("SELECT args FROM procrastinate_jobs WHERE args ->> 'job_id' = %s", [str(job_id)])
        return [json.loads(args) for (args,) in cursor.fetchall()]
