"""What a `.gitignore` says about one entry, exactly as git reads it."""

import re
from collections.abc import Sequence
from contextlib import suppress
from typing import NamedTuple

from pathspec import GitIgnoreSpec


class IgnoreFile(NamedTuple):
    """The patterns of one ignore file of a kind, relative to the folder `base` ("" or "a/b/")."""

    kind: str
    base: str
    patterns: tuple[tuple[re.Pattern[str], bool], ...]

    def opinion(self, path: str) -> bool | None:
        """True when the last pattern that names the entry leaves it out, False when it brings it back.

        `path` is relative to the walk's root and ends in `/` for a folder.
        """
        own = path.removeprefix(self.base)
        return next((leaves_out for regex, leaves_out in reversed(self.patterns) if regex.search(own)), None)


def ignore_file(kind: str, base: str, text: str) -> IgnoreFile:
    """Read an ignore file; a line that git would not understand either has no effect."""
    lines = text.removeprefix("\ufeff").split("\n")
    found = (_pattern(line.removesuffix("\r")) for line in lines)
    return IgnoreFile(kind, base, tuple(pattern for pattern in found if pattern))


def _pattern(line: str) -> tuple[re.Pattern[str], bool] | None:
    with suppress(ValueError):
        for pattern in GitIgnoreSpec.from_lines([line]).patterns:  # none for an empty line, else one
            if pattern.include is not None and pattern.regex is not None:
                return _of_the_entry_itself(str(pattern.regex.pattern)), pattern.include
    return None


def _of_the_entry_itself(regex: str) -> re.Pattern[str]:
    """Keep a pattern from matching what merely lies inside a folder that it names.

    pathspec decides on a file by its whole path, so `!docs` would also bring back every ignored file in docs. We
    walk folder by folder as git does, and each pattern speaks of one entry.
    """
    if "(?P<ps_d>" in regex:
        return re.compile(regex + r"\Z")
    return re.compile(regex + "." if regex.endswith("/") else regex)


def ignored_by(path: str, files: Sequence[IgnoreFile], kinds: Sequence[str]) -> str:
    """The ignore file that leaves the entry out, "" if none does. `files` go from the root inwards.

    Of each kind the innermost file with an opinion decides, and the first kind with an opinion decides in the end:
    a `.kbignore` can bring back what a `.gitignore` leaves out.
    """
    for kind in kinds:
        for file in reversed(files):
            leaves_out = file.opinion(path) if file.kind == kind else None
            if leaves_out is not None:
                return f"{file.base}{kind}" if leaves_out else ""
    return ""
