import os
import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from knowledge.walking import (
    CannotRead,
    FolderNotFound,
    Found,
    NotText,
    Skipped,
    Unreadable,
    WalkRules,
    clean,
    decode,
    read,
    walk,
)


def write(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


def found(root: Path, rules: WalkRules | None = None) -> list[str]:
    return [entry.path for entry in walk(root, rules=rules or WalkRules()) if isinstance(entry, Found)]


def reasons(root: Path) -> dict[str, str]:
    return {entry.path: entry.reason for entry in walk(root) if isinstance(entry, Skipped)}


def test_it_works(tmp_path: Path) -> None:
    write(tmp_path, {"b.md": "b", "a ñ.md": "a", "src/app.py": "x = 1", "photo.png": "x", "README": "read", "run": "x"})
    assert found(tmp_path) == ["README", "a ñ.md", "b.md", "src/app.py"]
    assert reasons(tmp_path) == {
        "photo.png": "files of type .png are not read",
        "run": "files without a known type are not read",
    }


def test_a_single_file_is_a_walk_of_one(tmp_path: Path) -> None:
    write(tmp_path, {"deep/a.md": "text"})
    (entry,) = walk(tmp_path / "deep/a.md")
    assert isinstance(entry, Found)
    assert (entry.path, entry.size, read(entry)) == ("a.md", 4, b"text")


def test_a_missing_folder_is_an_error_before_the_first_entry(tmp_path: Path) -> None:
    with pytest.raises(FolderNotFound, match="no such file"):
        walk(tmp_path / "not-there")


def test_listed_folders_are_skipped_whole_and_reported_once(tmp_path: Path) -> None:
    write(
        tmp_path,
        {f"sub/{name}/x.md": "x" for name in WalkRules().skip_folders} | {"CLAUDE.md": "x", "sub/CLAUDE.md": "x"},
    )
    told = reasons(tmp_path)
    assert found(tmp_path) == []
    assert told["sub/node_modules/"] == "folders named node_modules are skipped"
    assert told["sub/CLAUDE.md"] == "files named CLAUDE.md are skipped"
    assert len(told) == len(WalkRules().skip_folders) + 2


def test_ignore_files_count_where_they_are(tmp_path: Path) -> None:
    write(
        tmp_path,
        {
            ".gitignore": "*.txt\nlogs/\n!keep.txt\n/only-top.md\n",
            "a.txt": "x",
            "keep.txt": "x",
            "only-top.md": "x",
            "logs/x.md": "x",
            "sub/.gitignore": "local.md\n!a.txt\n",
            "sub/a.txt": "x",
            "sub/local.md": "x",
            "sub/only-top.md": "x",
            "local.md": "x",
        },
    )
    assert found(tmp_path) == ["keep.txt", "local.md", "sub/a.txt", "sub/only-top.md"]
    assert reasons(tmp_path)["logs/"] == "ignored by .gitignore"
    assert reasons(tmp_path)["sub/local.md"] == "ignored by sub/.gitignore"


def test_our_own_ignore_file_outranks_git(tmp_path: Path) -> None:
    write(
        tmp_path,
        {".gitignore": "made/\nb.md\n", ".kbignore": "!made/\na.md\n", "made/a.md": "x", "made/c.md": "x", "b.md": "x"},
    )
    assert found(tmp_path) == ["made/c.md"]


def test_a_line_that_makes_no_sense_has_no_effect(tmp_path: Path) -> None:
    write(tmp_path, {".gitignore": "!\n***\0\n[\na.md\r\n\\\n", "a.md": "x", "b.md": "x"})
    assert "a.md" not in found(tmp_path)


@pytest.mark.skipif(shutil.which("git") is None, reason="compares with git itself")
@pytest.mark.parametrize(
    "lines",
    [
        ["b/*", "!b"],
        ["*.md", "!sub/", "!b/b.md"],
        ["/*", "!/a", "a/*", "!a/b"],
        ["**/b/**", "!**/a.md"],
        ["*", "!*/", "!a.md"],
        ["a/**/b", "?.txt", "\\!x.md", "# b.md", "a b.md "],
    ],
)
def test_git_lists_the_same_files(tmp_path: Path, lines: list[str]) -> None:
    folders = ("", "a/", "b/", "a/b/", "b/c/", "a/b/c/b/")
    names = ("a.md", "b.md", "!x.md", "a b.md", "n.txt")
    write(tmp_path, {folder + name: "x" for folder in folders for name in names})
    write(tmp_path, {".gitignore": "\n".join(lines), "a/.gitignore": "/b.md\n!n.txt\n"})
    subprocess.run(["git", "init", "-q"], cwd=tmp_path, check=True)
    command = ["git", "ls-files", "-o", "--exclude-standard", "-z"]
    listed = subprocess.run(command, cwd=tmp_path, check=True, capture_output=True, text=True).stdout.split("\0")
    assert sorted(found(tmp_path)) == sorted(path for path in listed if path.endswith((".md", ".txt")))


def test_links_are_never_followed(tmp_path: Path) -> None:
    outside = write(tmp_path / "outside", {"secret.md": "secret", "folder/secret.md": "secret", "ignore": "a.md"})
    root = write(tmp_path / "root", {"a.md": "x"})
    (root / "file.md").symlink_to(outside / "secret.md")
    (root / "folder").symlink_to(outside / "folder", target_is_directory=True)
    (root / "inner.md").symlink_to(root / "a.md")
    (root / "broken.md").symlink_to(root / "nothing")
    (root / ".gitignore").symlink_to(outside / "ignore")
    assert found(root) == ["a.md"]
    assert set(reasons(root).values()) == {"symbolic links are not followed"}


def test_the_root_itself_may_be_a_link(tmp_path: Path) -> None:
    write(tmp_path / "real", {"a.md": "x"})
    (tmp_path / "link").symlink_to(tmp_path / "real", target_is_directory=True)
    assert found(tmp_path / "link") == ["a.md"]


def test_a_file_replaced_by_a_link_after_listing_is_not_read(tmp_path: Path) -> None:
    outside = write(tmp_path / "outside", {"a.md": "secret"})
    root = write(tmp_path / "root", {"sub/a.md": "x", "b.md": "x"})
    listed = {entry.path: entry for entry in walk(root) if isinstance(entry, Found)}
    (root / "b.md").unlink()
    (root / "b.md").symlink_to(outside / "a.md")
    (root / "sub").rename(root / "old")
    (root / "sub").symlink_to(outside, target_is_directory=True)
    with pytest.raises(CannotRead):
        read(listed["b.md"])
    with pytest.raises(CannotRead):
        read(listed["sub/a.md"])


def test_a_folder_replaced_by_a_link_while_walking_makes_the_listing_partial(tmp_path: Path) -> None:
    outside = write(tmp_path / "outside", {"secret.md": "secret"})
    root = write(tmp_path / "root", {"a.md": "x", "sub/b.md": "x"})
    entries = walk(root)
    assert isinstance(next(iter(entries)), Found)
    (root / "sub").rename(tmp_path / "moved")
    (root / "sub").symlink_to(outside, target_is_directory=True)
    (rest,) = entries
    assert isinstance(rest, Unreadable)
    assert rest.path == "sub/"


def test_a_folder_that_vanishes_makes_the_listing_partial(tmp_path: Path) -> None:
    write(tmp_path, {"a.md": "x", "sub/b.md": "x"})
    entries = walk(tmp_path)
    next(iter(entries))
    shutil.rmtree(tmp_path / "sub")
    (rest,) = entries
    assert rest == Unreadable("sub/", "the folder cannot be listed: no such file or directory")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_what_may_not_be_read_has_a_reason(tmp_path: Path) -> None:
    write(tmp_path, {"a.md": "x", "sub/b.md": "x"})
    (tmp_path / "a.md").chmod(0)
    (tmp_path / "sub").chmod(0)
    entry, folder = walk(tmp_path)
    (tmp_path / "sub").chmod(0o700)
    assert isinstance(folder, Unreadable)
    assert isinstance(entry, Found)
    with pytest.raises(CannotRead, match="permission denied"):
        read(entry)


def test_special_files_do_not_block(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.md")
    os.mkfifo(tmp_path / ".gitignore")
    assert reasons(tmp_path) == {".gitignore": "not a regular file", "pipe.md": "not a regular file"}


def test_sizes_are_told(tmp_path: Path) -> None:
    write(tmp_path, {"big.md": "x" * 101, "empty.md": "", "right.md": "x" * 100})
    rules = WalkRules(max_bytes=100)
    assert list(walk(tmp_path, rules=rules))[:2] == [
        Skipped("big.md", "101 bytes is over the limit of 100"),
        Skipped("empty.md", "the file is empty"),
    ]
    assert found(tmp_path, rules) == ["right.md"]


def test_a_file_that_grew_after_listing_is_refused(tmp_path: Path) -> None:
    (entry,) = walk(write(tmp_path, {"a.md": "x"}))
    assert isinstance(entry, Found)
    write(tmp_path, {"a.md": "x" * 50})
    with pytest.raises(CannotRead, match="over the limit of 20 bytes"):
        read(entry, max_bytes=20)


def test_names_that_cannot_be_stored_are_skipped(tmp_path: Path) -> None:
    write(tmp_path, {"two\nlines.md": "x", "narrow\u202fspace.md": "x"})
    (tmp_path / os.fsdecode(b"caf\xe9.md")).write_text("x")
    assert found(tmp_path) == ["narrow\u202fspace.md"]
    assert set(reasons(tmp_path)) == {"two\ufffdlines.md", "caf\ufffd.md"}


def test_very_deep_folders_need_no_open_files(tmp_path: Path) -> None:
    folder = tmp_path
    for _ in range(300):
        folder = folder / "d"
    folder.mkdir(parents=True)
    (folder / "a.md").write_text("x")
    assert found(tmp_path) == ["d/" * 300 + "a.md"]


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"plain", "plain"),
        ("с приветом".encode(), "с приветом"),
        ("\ufeffmarked".encode(), "marked"),
        ("dos\r\nлиния".encode("utf-16"), "dos\r\nлиния"),
        (b"", ""),
    ],
)
def test_text_is_decoded(data: bytes, text: str) -> None:
    assert decode(data) == (text, None)


def test_a_few_wrong_bytes_are_replaced_with_a_note() -> None:
    assert decode(b"The caf\xe9 is open all day.") == (
        "The caf\ufffd is open all day.",
        "bytes that are not UTF-8 were replaced",
    )
    assert decode(b"x" * 9000 + b"\0") == ("x" * 9000 + "\ufffd", "NUL characters were replaced")


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"\x89PNG\r\n\x1a\n" + bytes(range(256)), "NUL bytes"),
        (b"word\x01\x02\x03\x04" * 50, "control characters"),
        ("Это обычный русский текст.".encode("cp1251"), "not UTF-8"),
        (b"%PDF-1.7 text", "a PDF"),
        (b"\xff\xfe" + b"\x00\xd8" * 8, "NUL bytes"),
    ],
)
def test_other_data_is_refused_with_a_reason(data: bytes, reason: str) -> None:
    with pytest.raises(NotText, match=reason):
        decode(data)


@given(st.binary(max_size=300))
def test_whatever_is_decoded_can_be_stored(data: bytes) -> None:
    try:
        text, _ = decode(data)
    except NotText:
        return
    assert "\0" not in text
    text.encode()


@given(st.text(st.characters(), max_size=100))
def test_clean_text_can_be_stored(text: str) -> None:
    assert "\0" not in clean(text)
    clean(text).encode()


def test_clean_replaces_only_what_it_must() -> None:
    assert clean("a\0b \ud800 ñ 👩‍👧 \ud83d\ude00") == "a\ufffdb \ufffd ñ 👩‍👧 😀"


def test_the_manual_names_every_rule() -> None:
    manual = (Path(__file__).parents[2] / "docs/ingest.md").read_text()
    rules = WalkRules()
    named = (*rules.skip_folders, *rules.skip_files, *rules.extensions, *rules.names, *rules.ignore_files)
    assert [name for name in named if f"`{name}`" not in manual] == []
    assert f"{rules.max_bytes:,} bytes" in manual
