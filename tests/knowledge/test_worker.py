"""The worker, as a program of its own."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Iterator

import psycopg
import pytest

from knowledge.ingest import NewDocument, run_documents, submit_documents
from knowledge.worker import APPLICATION_NAME
from tenants.facts import TenantFacts
from tests.knowledge.ingested import holders, job_of, manage, report_of
from tests.plugin import CLUSTER
from tests.waiting import until


@pytest.fixture
def worker() -> Iterator[subprocess.Popen[str]]:
    """Return a running worker."""
    program = manage("worker")
    yield program
    program.kill()
    program.communicate()


def test_it_works(tenant: TenantFacts, rival: TenantFacts, worker: subprocess.Popen[str]) -> None:
    mine = submit_documents(tenant, [NewDocument("a.md", "The brindle valve.")])
    theirs = submit_documents(rival, [NewDocument("a.md", "The cuvex valve.")])

    until(lambda: job_of(tenant, mine.pk).state == "done" and job_of(rival, theirs.pk).state == "done", seconds=60)

    assert (holders(tenant, "brindle"), holders(rival, "cuvex")) == (["a.md"], ["a.md"])
    assert (holders(rival, "brindle"), holders(tenant, "cuvex")) == ([], [])


def test_jobs_of_one_source_run_in_the_order_they_came(tenant: TenantFacts, worker: subprocess.Popen[str]) -> None:
    jobs = [submit_documents(tenant, [NewDocument("a.md", f"The word{number}q.")]) for number in range(5)]

    until(lambda: job_of(tenant, jobs[-1].pk).state == "done", seconds=60)

    assert holders(tenant, "word4q") == ["a.md"]
    assert [report_of(tenant, job.pk)["counts"]["indexed"] for job in jobs] == [1, 1, 1, 1, 1]


def test_a_job_that_was_done_meanwhile_does_no_harm(tenant: TenantFacts) -> None:
    job = submit_documents(tenant, [NewDocument("a.md", "The brindle valve.")])
    run_documents(tenant, job.pk)
    after = submit_documents(tenant, [NewDocument("b.md", "The cuvex valve.")])

    program = manage("worker")
    until(lambda: job_of(tenant, after.pk).state == "done", seconds=60)
    program.send_signal(signal.SIGTERM)
    program.communicate(timeout=30)

    assert program.returncode == 0
    assert report_of(tenant, job.pk)["counts"]["indexed"] == 1


def test_a_worker_outlives_broken_connections(worker: subprocess.Popen[str], tenant: TenantFacts) -> None:
    before = submit_documents(tenant, [NewDocument("a.md", "The brindle valve.")])
    until(lambda: job_of(tenant, before.pk).state == "done", seconds=60)

    with psycopg.connect(CLUSTER.superuser_url()) as superuser:
        mine = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = %s"
        superuser.execute(mine, [APPLICATION_NAME])
    after = submit_documents(tenant, [NewDocument("b.md", "The cuvex valve.")])

    until(lambda: job_of(tenant, after.pk).state == "done" or worker.poll() is not None, seconds=60)
    assert worker.returncode in (None, 1)  # 1: its supervisor starts it again


def test_without_a_database_a_worker_ends_with_1(tenant: TenantFacts) -> None:
    program = manage("worker", DATABASE_URL="postgresql://kb_app:x@127.0.0.1:1/kbplatform")

    _, errors = program.communicate(timeout=60)

    assert program.returncode == 1
    assert errors.startswith("CommandError: no database: ")
    assert "Traceback" not in errors
