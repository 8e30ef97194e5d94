"""What lies in the folders and files that a command names, before anything is read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from knowledge.jobs import NewFile
from knowledge.models import FileState
from knowledge.walking import DEFAULT_RULES, Found, Skipped, Unreadable, walk


@dataclass(frozen=True, slots=True)
class Listing:
    """Files to be indexed, entries that are left out with the reason, and what the listing stands for.

    whole: every place is a folder and could be listed to its end, so that a page whose path is not in it
    has vanished. roots are the places' absolute paths, name is what a source of them is called.
    """

    found: tuple[Found, ...]
    left: tuple[NewFile, ...]
    whole: bool
    roots: tuple[str, ...]
    name: str


def list_files(roots: Sequence[Path], *, largest: int) -> Listing:
    """List folders and files; the same relative path in a second folder is left out.

    largest: bytes a file may have. Raises FolderNotFound.
    """
    rules = replace(DEFAULT_RULES, max_bytes=largest)
    found: dict[str, Found] = {}
    left: list[NewFile] = []
    whole = True
    for root in roots:
        whole = whole and root.is_dir()
        for entry in walk(root, rules=rules):
            if isinstance(entry, Skipped):
                whole = whole and not isinstance(entry, Unreadable)
                left.append(_left(entry))
            elif entry.path in found:
                left.append(_left(Skipped(entry.path, "another folder has a file of this path")))
            else:
                found[entry.path] = entry
    places = tuple(str(root.resolve()) for root in roots)
    return Listing(tuple(found.values()), tuple(left), whole, places, _name(roots[0]))


def _left(entry: Skipped) -> NewFile:
    state = FileState.FAILED if isinstance(entry, Unreadable) else FileState.SKIPPED
    return NewFile(path=entry.path, state=state, reason=entry.reason)


def _name(root: Path) -> str:
    """Return a folder's name, and for a file that of the folder it is in."""
    real = root.resolve()
    return (real if real.is_dir() else real.parent).name or "files"
