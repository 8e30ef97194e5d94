"""What any text or path must be before it goes into the database."""

from __future__ import annotations

from knowledge.models.pages import LONGEST_PATH

LONGEST_PATH_BYTES = 2_048  # an index entry of PostgreSQL holds 2,704


def path_fault(path: str) -> str:
    """Say what is wrong with a page's path, or "" when it can be one."""
    if not path.strip():
        return "the path is empty"
    if len(path) > LONGEST_PATH or len(path.encode("utf-8", "replace")) > LONGEST_PATH_BYTES:
        return f"the path is longer than {LONGEST_PATH} characters or {LONGEST_PATH_BYTES} bytes"
    return ""
