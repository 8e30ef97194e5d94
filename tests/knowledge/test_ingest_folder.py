"""Folders and files of this machine."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from knowledge import index
from knowledge.ingest import BadSource, Flags, OtherFolder, SourceIsBusy, ingest_folder
from knowledge.ingest.exclusive import held
from knowledge.ingest.sources import known_source
from knowledge.jobs import open_job
from knowledge.models import Job, JobKind, JobState
from knowledge.search import stats
from knowledge.walking import FolderNotFound
from tenants.facts import TenantFacts
from tests.knowledge.ingested import (
    chunks,
    counts,
    holders,
    job_of,
    outcome,
    page,
    paths,
    report_of,
    store,
    upload,
    version,
)


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """Return a folder with a few files."""
    root = tmp_path / "tree"
    write(root, {"README.md": "# Readme\n\nThe quarrel marker.\n", "sub/kept.md": "The ulverton marker.\n"})
    write(root, {"src/app.py": 'def rundle():\n    return "rundle"\n', "names/a ñ b.md": "The sorrelo marker.\n"})
    return root


def write(root: Path, files: dict[str, str]) -> None:
    """Write files below a folder."""
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)


def ingest(tenant: TenantFacts, *roots: Path, source: str | None = "tree", **flags: Any) -> dict[str, Any]:
    """Ingest folders and return the job's report with all files."""
    job = ingest_folder(tenant, list(roots), source=source, flags=Flags(**flags))
    return report_of(tenant, job.pk)


def test_it_works(tenant: TenantFacts, tree: Path) -> None:
    report = ingest(tenant, tree)

    assert (report["state"], report["progress"], counts(report)) == ("done", 1.0, {"seen": 4, "indexed": 4})
    assert paths(tenant) == ["README.md", "names/a ñ b.md", "src/app.py", "sub/kept.md"]
    assert holders(tenant, "rundle") == ["src/app.py"]
    assert chunks(tenant, "src/app.py", source="tree")[0].heading == ["rundle"]


def test_again_everything_is_unchanged(tenant: TenantFacts, tree: Path) -> None:
    ingest(tenant, tree)
    before = version(tenant)

    assert counts(ingest(tenant, tree)) == {"seen": 4, "unchanged": 4}
    assert version(tenant) == before


def test_a_renamed_file_moves_and_a_deleted_one_goes(tenant: TenantFacts, tree: Path) -> None:
    ingest(tenant, tree)
    (tree / "sub/kept.md").rename(tree / "sub/renamed.md")
    (tree / "src/app.py").unlink()

    assert counts(ingest(tenant, tree)) == {"seen": 3, "indexed": 1, "unchanged": 2}
    assert holders(tenant, "ulverton") == ["sub/renamed.md"]
    assert holders(tenant, "rundle") == []


def test_a_file_that_is_ignored_from_now_on_goes(tenant: TenantFacts, tree: Path) -> None:
    ingest(tenant, tree)
    write(tree, {".kbignore": "sub/\n"})

    report = ingest(tenant, tree)

    assert holders(tenant, "ulverton") == []
    assert outcome(report, "sub/") == ("skipped", "ignored by .kbignore")


def test_pages_of_other_sources_are_never_touched(tenant: TenantFacts, tree: Path) -> None:
    upload(tenant, "README.md", "The apsley page.\n", source="other")
    upload(tenant, "gone.md", "The brindle page.\n", source="other")

    ingest(tenant, tree)
    ingest(tenant, tree)

    assert holders(tenant, "apsley") == ["README.md"]
    assert holders(tenant, "brindle") == ["gone.md"]


def test_a_folder_that_is_not_there_deletes_nothing(tenant: TenantFacts, tree: Path) -> None:
    ingest(tenant, tree)

    with pytest.raises(FolderNotFound, match="not-there"):
        ingest(tenant, tree.parent / "not-there")
    assert stats(tenant).pages == 4


def test_a_listing_with_a_folder_that_cannot_be_read_deletes_nothing(
    tenant: TenantFacts, tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ingest(tenant, tree)
    (tree / "src/app.py").unlink()
    _make_unreadable(monkeypatch, "sub")

    report = ingest(tenant, tree)

    assert outcome(report, "sub/") == ("failed", "the folder cannot be listed: permission denied")
    assert paths(tenant) == ["README.md", "names/a ñ b.md", "src/app.py", "sub/kept.md"]


def test_a_file_named_alone_deletes_nothing(tenant: TenantFacts, tree: Path) -> None:
    ingest(tenant, tree)
    write(tree, {"README.md": "The vexley marker.\n"})

    assert counts(ingest(tenant, tree / "README.md")) == {"seen": 1, "indexed": 1}
    assert holders(tenant, "vexley") == ["README.md"]
    assert stats(tenant).pages == 4


def test_several_folders_are_one_listing(tenant: TenantFacts, tree: Path) -> None:
    other = tree.parent / "other"
    write(other, {"README.md": "The same path.\n", "more.md": "The zennor marker.\n"})

    report = ingest(tenant, tree, other)

    assert paths(tenant) == ["README.md", "more.md", "names/a ñ b.md", "src/app.py", "sub/kept.md"]
    assert counts(report) == {"seen": 6, "indexed": 5, "skipped": 1}


def test_the_source_is_called_as_the_folder(tenant: TenantFacts, tree: Path) -> None:
    ingest(tenant, tree, source=None)

    assert page(tenant, "README.md", source="tree").path == "README.md"


def test_another_folder_of_the_same_name_needs_a_source(tenant: TenantFacts, tree: Path) -> None:
    ingest(tenant, tree, source=None)
    other = tree.parent / "elsewhere/tree"
    write(other, {"a.md": "The zennor marker.\n"})

    with pytest.raises(OtherFolder, match="--source"):
        ingest(tenant, other, source=None)
    assert stats(tenant).pages == 4


def test_a_first_run_cut_short_is_taken_up_without_naming_its_source(tenant: TenantFacts, tree: Path) -> None:
    def stop(done: int, total: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        ingest_folder(tenant, [tree], progress=stop)

    assert ingest(tenant, tree, source=None)["state"] == "done"


def test_the_wiki_is_no_folder(tenant: TenantFacts, tree: Path) -> None:
    with pytest.raises(BadSource, match="wiki"):
        ingest(tenant, tree, source="wiki")


def test_a_source_that_programs_fill_loses_nothing_to_a_folder(tenant: TenantFacts, tree: Path) -> None:
    store(tenant, "pushed.md", "The brindle page.")

    ingest(tenant, tree, source="api")

    assert holders(tenant, "brindle") == ["pushed.md"]


def test_what_is_left_out_has_a_reason(tenant: TenantFacts, tree: Path) -> None:
    (tree / "binary.md").write_bytes(b"wexcombe\0\x01\x02" * 500)
    (tree / "big.md").write_text("The zennor line.\n" * 200_000)
    (tree / "link.md").symlink_to(tree.parent)
    write(tree, {"empty.md": "", "CLAUDE.md": "x", "node_modules/m.md": "x", "photo.png": "x", ".gitignore": "no.md\n"})
    write(tree, {"no.md": "x", "talk.md": "As an AI language model, I don't have access to your files.\n"})

    report = ingest(tenant, tree)

    states = {file["path"]: file["state"] for file in report["files"] if file["state"] != "indexed"}
    assert states.pop("talk.md") == "quarantined"
    assert set(states) >= {"binary.md", "big.md", "link.md", "empty.md", "CLAUDE.md", "node_modules/", "no.md"}
    assert set(states.values()) == {"skipped"}
    assert all(file["reason"] for file in report["files"] if file["state"] != "indexed")
    assert len(paths(tenant)) == 4


def test_flags_are_for_all_pages_and_front_matter_outranks_them(tenant: TenantFacts, tree: Path) -> None:
    write(tree, {"internal.md": "---\nuser_facing: false\n---\nThe zennor marker.\n"})

    report = ingest(tenant, tree, user_facing=True, source_type="doc", app="racks", product="alpha")

    found = page(tenant, "README.md", source="tree")
    assert (found.user_facing, found.source_type, found.app, found.product) == (True, "doc", "racks", "alpha")
    assert page(tenant, "internal.md", source="tree").user_facing is False
    assert report["summary"] == "5 pages, 4 visible to visitors"


def test_what_was_set_by_hand_outlives_the_next_ingest(tenant: TenantFacts, tree: Path) -> None:
    ingest(tenant, tree, app="racks")
    index.set_flags(tenant, page_ids=[page(tenant, "README.md", source="tree").pk], by_hand=True, app="mine")
    write(tree, {"README.md": "The vexley marker.\n"})

    ingest(tenant, tree, app="monitoring")

    assert page(tenant, "README.md", source="tree").app == "mine"
    assert page(tenant, "sub/kept.md", source="tree").app == "monitoring"


def test_one_run_of_a_source_at_a_time(tenant: TenantFacts, tree: Path) -> None:
    ingest(tenant, tree)
    source = known_source(tenant, "tree")
    assert source is not None

    with held(f"folder {tenant.id} {source.pk}"), pytest.raises(SourceIsBusy, match="tree"):
        ingest(tenant, tree)


def test_the_job_of_a_killed_run_is_ended_by_the_next(tenant: TenantFacts, tree: Path) -> None:
    ingest(tenant, tree)
    source = known_source(tenant, "tree")
    assert source is not None
    killed: Job = open_job(tenant, source, kind=JobKind.FOLDER, state=JobState.RUNNING, seen=4)

    ingest(tenant, tree)

    assert (job_of(tenant, killed.pk).state, job_of(tenant, killed.pk).reason) == (
        JobState.FAILED,
        "interrupted; a later run took over",
    )


def test_progress_is_told_for_each_file(tenant: TenantFacts, tree: Path) -> None:
    told: list[tuple[int, int]] = []

    ingest_folder(tenant, [tree], source="tree", progress=lambda done, total: told.append((done, total)))

    assert told == [(1, 4), (2, 4), (3, 4), (4, 4)]


def test_tenants_never_mix(tenant: TenantFacts, rival: TenantFacts, tree: Path) -> None:
    ingest(tenant, tree)
    (tree / "src/app.py").unlink()

    ingest(rival, tree)

    assert (len(paths(tenant)), len(paths(rival))) == (4, 3)
    assert holders(rival, "rundle") == []


def _make_unreadable(monkeypatch: pytest.MonkeyPatch, folder: str) -> None:
    """Let the system refuse to open a folder, also to root, whom no permission stops."""
    real = os.open

    def refused(path: Any, *arguments: Any, **options: Any) -> int:
        if path == folder:
            raise PermissionError(13, "Permission denied")
        return real(path, *arguments, **options)

    monkeypatch.setattr(os, "open", refused)
