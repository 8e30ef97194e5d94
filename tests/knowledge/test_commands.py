"""The commands about a tenant's corpus."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command, execute_from_command_line

from tenants.facts import TenantFacts
from tests.knowledge.ingested import holders, manage, paths, store


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder with two files."""
    (tmp_path / "a.md").write_text("# Guide\n\nThe brindle valve.\n")
    (tmp_path / "b.md").write_text("The cuvex valve.\n")
    return tmp_path


def plain(name: str, *arguments: object) -> str:
    """Run a command and return its text."""
    out = io.StringIO()
    call_command(name, *map(str, arguments), stdout=out)
    return out.getvalue()


def run(name: str, *arguments: object) -> Any:
    """Run a command with --json and return what it printed."""
    return json.loads(plain(name, *arguments, "--json"))


def status(*arguments: object) -> int:
    """Run a command as the command line does and return its exit status."""
    with pytest.raises(SystemExit) as left:
        execute_from_command_line(["manage.py", *map(str, arguments)])
    assert isinstance(left.value.code, int)
    return left.value.code


def test_it_works(tenant: TenantFacts, folder: Path) -> None:
    job = run("ingest", folder, "--tenant", tenant.slug, "--source", "docs")

    assert {"id", "state", "progress", "counts", "files"} <= set(job)
    assert (job["state"], job["progress"], job["counts"]["indexed"], job["files"]) == ("done", 1.0, 2, [])
    assert paths(tenant) == ["a.md", "b.md"]


def test_ingest_says_the_counts_each_reason_and_what_visitors_see(tenant: TenantFacts, folder: Path) -> None:
    (folder / "photo.png").write_bytes(b"x")

    text = plain("ingest", folder, "--tenant", tenant.slug, "--source", "docs", "--user-facing")

    assert text.splitlines() == [
        "source docs: 3 seen, 2 indexed, 1 skipped",
        "  photo.png: skipped, files of type .png are not read",
        "2 pages, 2 visible to visitors",
    ]


def test_ingest_takes_what_is_said_about_all_pages(tenant: TenantFacts, folder: Path) -> None:
    plain("ingest", folder, "--tenant", tenant.slug, "--source-type", "doc", "--app", "racks", "--product", "alpha")

    assert run("stats", "--tenant", tenant.slug)["by_source_type"] == {"doc": 2}


@pytest.mark.parametrize(
    "arguments",
    [
        ("ingest", "/no/such/folder", "--tenant", "TENANT"),
        ("ingest", "FOLDER", "--tenant", "TENANT", "--source", " "),
        ("ingest", "FOLDER", "--tenant", "TENANT", "--source", "wiki"),
        ("ingest", "FOLDER", "--tenant", "TENANT", "--source-type", "x" * 33),
        ("ingest", "FOLDER"),
        ("ingest", "--tenant", "TENANT"),
        ("query", " ", "--tenant", "TENANT"),
        ("query", "valve", "--tenant", "TENANT", "--top-k", "0"),
        ("query", "valve", "--tenant", "TENANT", "--top-k", "many"),
        ("worker", "--concurrency", "0"),
    ],
)
def test_wrong_use_ends_with_2(
    tenant: TenantFacts, folder: Path, arguments: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    given = [{"TENANT": tenant.slug, "FOLDER": str(folder)}.get(part, part) for part in arguments]

    assert status(*given) == 2
    assert "Traceback" not in capsys.readouterr().err
    assert paths(tenant) == []


@pytest.mark.parametrize("arguments", [("ingest", "."), ("query", "valve"), ("stats",)])
def test_an_unknown_tenant_ends_with_1(arguments: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    assert status(*arguments, "--tenant", "nobody-here") == 1
    assert "nobody-here" in capsys.readouterr().err


def test_ingest_ends_with_1_when_a_file_failed_and_still_prints_the_job(
    tenant: TenantFacts, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("knowledge.ingest.reading.chunk", _broken)
    out = io.StringIO()

    with pytest.raises(CommandError, match="2 files could not be indexed"):
        call_command("ingest", str(folder), "--tenant", tenant.slug, "--json", stdout=out)

    job = json.loads(out.getvalue())
    assert [file["reason"] for file in job["files"]] == ["could not be read: RecursionError"] * 2


def test_ingest_shows_no_bar_to_programs(tenant: TenantFacts, folder: Path) -> None:
    program = manage("ingest", folder, "--tenant", tenant.slug)
    _, errors = program.communicate(timeout=120)

    assert (program.returncode, errors) == (0, "")


def test_query_shows_the_hits(tenant: TenantFacts) -> None:
    store(tenant, "a.md", "The brindle valve.")

    found = run("query", "brindle", "--tenant", tenant.slug)

    assert [(hit["path"], hit["text"]) for hit in found["hits"]] == [("a.md", "The brindle valve.")]
    text = plain("query", "brindle", "--tenant", tenant.slug)
    assert text.startswith("a.md#L1-L1  score ")
    assert text.rstrip().endswith("passes the gate of 0.25")


def test_query_gives_as_many_as_asked_for(tenant: TenantFacts) -> None:
    store(tenant, "a.md", "valve one", "valve two", "valve three")

    assert len(run("query", "valve", "--tenant", tenant.slug, "--top-k", "2")["hits"]) == 2


def test_stats_counts(tenant: TenantFacts, rival: TenantFacts) -> None:
    store(tenant, "a.md", "one", "two")

    mine, theirs = run("stats", "--tenant", tenant.slug), run("stats", "--tenant", rival.slug)

    assert (mine["chunks"], mine["pages"], mine["sources"], mine["engine"]) == (2, 1, 1, "postgres-hybrid")
    assert (theirs["chunks"], theirs["last_ingest_at"]) == (0, None)


def test_tenants_never_mix(tenant: TenantFacts, rival: TenantFacts, folder: Path) -> None:
    plain("ingest", folder, "--tenant", tenant.slug)

    assert run("query", "brindle", "--tenant", rival.slug)["hits"] == []
    assert holders(tenant, "brindle") == ["a.md"]


@pytest.mark.parametrize("name", ["ingest", "query", "stats", "worker"])
def test_each_explains_itself(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert status(name, "--help") == 0
    assert len(capsys.readouterr().out) > 200


def _broken(path: str, body: str) -> None:
    raise RecursionError
