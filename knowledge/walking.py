"""Which files of a folder become pages, and why the others do not.

Every entry is reported once: found, or skipped with a reason; a skipped folder stands for all that is in it. Symbolic
links are never followed, neither to files nor to folders, wherever they lead: a link inside the root would only show
the same text under a second path. Folders are opened one by one from the root without following links, and files are
read the same way, so that an entry replaced by a link between listing and reading leads nowhere.
"""

import os
import re
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from knowledge.chunking.kinds import EXTENSIONS, NAMES
from knowledge.ignoring import IgnoreFile, ignore_file, ignored_by

MEBIBYTE = 1024 * 1024
LONGEST_IGNORE_FILE = 256 * 1024
UNPRINTABLE = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")
SAMPLE = 8000  # bytes looked at to tell text from other data, as git does


@dataclass(frozen=True, slots=True)
class Found:
    """A file to be ingested: `path` relative to the root with `/`, `size` in bytes when it was listed."""

    path: str
    file: Path
    size: int


@dataclass(frozen=True, slots=True)
class Skipped:
    """An entry that is not ingested by rule; `path` ends in `/` for a folder."""

    path: str
    reason: str


@dataclass(frozen=True, slots=True)
class Unreadable(Skipped):
    """An entry that could not be looked at: the listing is partial, so nothing may be deleted because of it."""


class FolderNotFound(Exception):
    """There is no such file or folder, or it cannot be opened."""


class CannotRead(Exception):
    """The file cannot be read now; the message is the reason."""


class NotText(Exception):
    """The bytes are not text; the message is the reason."""


@dataclass(frozen=True, slots=True)
class WalkRules:
    """What a walk leaves out. The folder and file names are klaude-proxy's; all of it is meant to be edited."""

    skip_folders: frozenset[str] = frozenset(
        ".git node_modules __pycache__ .venv venv dist build .claude target .mypy_cache .pytest_cache"
        " tests test __tests__ spec specs".split()
    )
    skip_files: frozenset[str] = frozenset({"CLAUDE.md"})
    extensions: frozenset[str] = EXTENSIONS
    names: frozenset[str] = field(default_factory=lambda: frozenset(NAMES))
    ignore_files: tuple[str, ...] = (".kbignore", ".gitignore")  # the earlier outranks the later
    max_bytes: int = 2 * MEBIBYTE


DEFAULT_RULES = WalkRules()


def walk(root: Path, *, rules: WalkRules = DEFAULT_RULES) -> Iterator[Found | Skipped]:
    """List what is under `root`, in the order of names; `root` may also be one file.

    Raises FolderNotFound before the first entry when the root itself cannot be listed.
    """
    try:
        real = root.resolve(strict=True)
        mode = real.stat().st_mode
        if stat.S_ISDIR(mode):
            os.close(os.open(real, os.O_RDONLY | os.O_DIRECTORY))
    except (OSError, RuntimeError, ValueError) as error:
        raise FolderNotFound(f"{root}: {_why(error)}") from error
    return _walk(real, rules) if stat.S_ISDIR(mode) else iter([_file(real, real.name, real.stat(), rules)])


def _walk(root: Path, rules: WalkRules) -> Iterator[Found | Skipped]:
    waiting: list[tuple[str, tuple[IgnoreFile, ...]]] = [("", ())]
    while waiting:
        folder, ignoring_files = waiting.pop()
        try:
            entries, own = _listed(root, folder, rules)
        except OSError as error:
            yield Unreadable(_shown(folder) or "/", f"the folder cannot be listed: {_why(error)}")
            continue
        ignoring_files = (*ignoring_files, *own)
        inner: list[tuple[str, tuple[IgnoreFile, ...]]] = []
        for name, status in entries:
            verdict = _judged(root, folder + name, status, ignoring_files, rules)
            if verdict is None:
                inner.append((f"{folder}{name}/", ignoring_files))
            else:
                yield verdict
        waiting += reversed(inner)


def _listed(
    root: Path, folder: str, rules: WalkRules
) -> tuple[list[tuple[str, os.stat_result | OSError]], list[IgnoreFile]]:
    """The entries of one folder by name, each with its own status (links not followed), and its ignore files."""
    with _opened(root, folder) as descriptor:
        names = sorted(os.listdir(descriptor))  # noqa: PTH208 (a path cannot name an open folder)
        files = [_ignore_file(descriptor, folder, kind) for kind in rules.ignore_files if kind in names]
        return [(name, _status(descriptor, name)) for name in names], [file for file in files if file]


@contextmanager
def _opened(root: Path, folder: str) -> Iterator[int]:
    """A descriptor of a folder under the root, reached without following any link."""
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
    descriptor = os.open(root, flags)
    try:
        for part in folder.split("/"):
            if part:
                outer, descriptor = descriptor, os.open(part, flags, dir_fd=descriptor)
                os.close(outer)
        yield descriptor
    finally:
        os.close(descriptor)


def _status(descriptor: int, name: str) -> os.stat_result | OSError:
    try:
        return os.stat(name, dir_fd=descriptor, follow_symlinks=False)
    except OSError as error:
        return error


def _ignore_file(descriptor: int, folder: str, kind: str) -> IgnoreFile | None:
    try:
        data = _read(descriptor, kind, LONGEST_IGNORE_FILE)
    except OSError:
        return None  # the file itself is reported like every other entry
    return ignore_file(kind, folder, data.decode("utf-8", "replace"))


def _judged(
    root: Path, path: str, status: os.stat_result | OSError, ignoring_files: Sequence[IgnoreFile], rules: WalkRules
) -> Found | Skipped | None:
    """What becomes of an entry; None for a folder to be entered."""
    if isinstance(status, OSError):
        return Unreadable(_shown(path), f"cannot be looked at: {_why(status)}")
    is_folder = stat.S_ISDIR(status.st_mode)
    shown = _shown(path) + ("/" if is_folder else "")
    reason = _refused(path, is_folder, status, ignoring_files, rules)
    if reason:
        return Skipped(shown, reason)
    return None if is_folder else _file(root / path, path, status, rules)


def _refused(
    path: str, is_folder: bool, status: os.stat_result, ignoring_files: Sequence[IgnoreFile], rules: WalkRules
) -> str:
    name = path.rpartition("/")[2]
    if UNPRINTABLE.search(name):
        return "the name holds control characters or is not UTF-8"
    if stat.S_ISLNK(status.st_mode):
        return "symbolic links are not followed"
    if name in (rules.skip_folders if is_folder else rules.skip_files):
        return f"{'folders' if is_folder else 'files'} named {name} are skipped"
    ignoring = ignored_by(path + ("/" if is_folder else ""), ignoring_files, rules.ignore_files)
    return f"ignored by {ignoring}" if ignoring else ""


def _file(file: Path, path: str, status: os.stat_result, rules: WalkRules) -> Found | Skipped:
    name = path.rpartition("/")[2]
    suffix = Path(name).suffix.removeprefix(".").lower()
    if not stat.S_ISREG(status.st_mode):
        return Skipped(path, "not a regular file")
    if name not in rules.names and suffix not in rules.extensions:
        return Skipped(
            path, f"files of type .{suffix} are not read" if suffix else "files without a known type are not read"
        )
    if status.st_size > rules.max_bytes:
        return Skipped(path, f"{status.st_size:,} bytes is over the limit of {rules.max_bytes:,}")
    if status.st_size == 0:
        return Skipped(path, "the file is empty")
    return Found(path, file, status.st_size)


def read(found: Found, *, max_bytes: int = DEFAULT_RULES.max_bytes) -> bytes:
    """The bytes of a found file, no link followed on the way from the walk's root.

    Raises CannotRead with a reason: gone, not permitted, replaced by something else, or grown over `max_bytes`.
    """
    folder, _, name = found.path.rpartition("/")
    root = found.file.parents[found.path.count("/")]
    try:
        with _opened(root, folder) as descriptor:
            data = _read(descriptor, name, max_bytes + 1)
    except OSError as error:
        raise CannotRead(f"cannot be read: {_why(error)}") from error
    if len(data) > max_bytes:
        raise CannotRead(f"over the limit of {max_bytes:,} bytes")
    return data


def _read(descriptor: int, name: str, limit: int) -> bytes:
    """At most `limit` bytes of a regular file in an open folder; a pipe does not block."""
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    with os.fdopen(os.open(name, flags, dir_fd=descriptor), "rb") as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise OSError("not a regular file")
        return file.read(limit)


def _shown(path: str) -> str:
    """A path that can be stored and printed, whatever bytes the file system holds."""
    return UNPRINTABLE.sub("\ufffd", path)


def _why(error: Exception) -> str:
    return (getattr(error, "strerror", None) or str(error) or type(error).__name__).lower()


def decode(data: bytes) -> tuple[str, str | None]:
    """The text of a file, and a note when bytes had to be replaced (None when all was well).

    UTF-8, and UTF-16 with a byte order mark. A few bytes that are not UTF-8 become U+FFFD. Raises NotText for
    binary data and for text in another encoding.
    """
    if data.startswith((b"\xff\xfe", b"\xfe\xff")) and len(data) % 2 == 0:
        text = clean(data.decode("utf-16", "replace"))
        if "\ufffd" not in text:
            return text, None
    problem = _not_text(data)
    if problem:
        raise NotText(problem)
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        return clean(data.decode("utf-8-sig", "replace")), "bytes that are not UTF-8 were replaced"
    cleaned = clean(text)
    return cleaned, None if cleaned == text else "NUL characters were replaced"


def clean(text: str) -> str:
    """The text with NUL characters and lone surrogates, which no database stores, replaced by U+FFFD."""
    return text.replace("\0", "\ufffd").encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def _not_text(data: bytes) -> str:
    sample = data[:SAMPLE]
    if sample.startswith(b"%PDF-"):
        return "a PDF is not text"
    if b"\0" in sample:
        return "binary data: it holds NUL bytes"
    controls = sum(byte < 32 and byte not in b"\t\n\f\r\b\x1b" for byte in sample)
    if controls * 10 > len(sample):
        return "binary data: more than a tenth of it are control characters"
    wrong = sample.decode("utf-8", "replace").count("\ufffd") - sample.count("\ufffd".encode())
    if wrong * 5 > len(sample):
        return "not UTF-8: more than a fifth of it is in another encoding; save it as UTF-8"
    return ""
