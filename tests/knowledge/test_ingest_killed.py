"""Programs that are killed in the middle of an ingest: whole pages only, and work that goes on."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from knowledge.ingest import NewDocument, submit_documents
from tenants.facts import TenantFacts
from tests.knowledge.ingested import (
    chunks,
    holders,
    job_of,
    long_page,
    manage,
    paths,
    staged,
    store,
    upload,
)
from tests.waiting import until

SECTIONS = 600  # enough for the work to be still going on when it is looked at
Start = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def start() -> Iterator[Start]:
    """Return what starts a management command; what still runs at the end is killed."""
    started: list[subprocess.Popen[str]] = []

    def begin(*arguments: object) -> subprocess.Popen[str]:
        started.append(manage(*arguments))
        return started[-1]

    yield begin
    for program in started:
        program.kill()
        program.communicate()


def kill_in_the_middle(tenant: TenantFacts, program: subprocess.Popen[str], number: signal.Signals) -> set[int]:
    """Send a signal once something is staged; return the ids of what is staged when the program has ended."""
    until(lambda: staged(tenant), seconds=60)
    program.send_signal(number)
    program.communicate(timeout=30)
    return staged(tenant)


def test_a_killed_command_leaves_the_old_page_and_the_next_goes_on(
    tenant: TenantFacts, tmp_path: Path, start: Start
) -> None:
    command = ("ingest", tmp_path, "--tenant", tenant.slug, "--source", "api")
    upload(tenant, "long.md", "The brindle word.")
    (tmp_path / "long.md").write_text(long_page(sections=SECTIONS))

    kept = kill_in_the_middle(tenant, start(*command), signal.SIGKILL)
    old = [chunk.text for chunk in chunks(tenant, "long.md")]
    second = start(*command)
    output = second.communicate(timeout=120)

    assert kept
    assert old == ["The brindle word."]
    assert second.returncode == 0, output
    found = chunks(tenant, "long.md")
    assert kept <= {chunk.pk for chunk in found}
    assert "harrow0q" in found[0].text
    assert f"harrow{SECTIONS - 1}q" in found[-1].text
    assert (holders(tenant, "brindle"), staged(tenant)) == ([], set())


def test_a_killed_workers_job_is_taken_up_by_another(tenant: TenantFacts, start: Start) -> None:
    job = submit_documents(tenant, [NewDocument("long.md", long_page(sections=SECTIONS))])

    kept = kill_in_the_middle(tenant, start("worker"), signal.SIGKILL)
    between = paths(tenant)
    start("worker")
    until(lambda: job_of(tenant, job.pk).state == "done", seconds=60)

    assert kept
    assert between == []
    assert kept <= {chunk.pk for chunk in chunks(tenant, "long.md")}


def test_a_worker_told_to_stop_leaves_its_job_for_the_next(tenant: TenantFacts, start: Start) -> None:
    job = submit_documents(tenant, [NewDocument("long.md", long_page(sections=SECTIONS))])
    worker = start("worker")

    kept = kill_in_the_middle(tenant, worker, signal.SIGTERM)

    between = len(chunks(tenant, "long.md"))
    assert (worker.returncode, job_of(tenant, job.pk).state) == (0, "queued")
    start("worker")
    until(lambda: job_of(tenant, job.pk).state == "done", seconds=60)
    whole = {chunk.pk for chunk in chunks(tenant, "long.md")}
    assert kept <= whole
    assert between in {0, len(whole)}


def test_another_ingest_of_the_page_in_between_leaves_no_half_page(
    tenant: TenantFacts, tmp_path: Path, start: Start
) -> None:
    (tmp_path / "long.md").write_text(long_page(sections=SECTIONS))
    command = start("ingest", tmp_path, "--tenant", tenant.slug, "--source", "api")
    until(lambda: staged(tenant), seconds=60)

    store(tenant, "long.md", "The brindle word.")  # publishes, which clears what is staged for the path

    output = command.communicate(timeout=120)
    assert command.returncode == 0, output
    found = chunks(tenant, "long.md")
    assert [chunk.ord for chunk in found] == list(range(len(found)))
    assert "harrow0q" in found[0].text
    assert f"harrow{SECTIONS - 1}q" in found[-1].text
