"""Small JSON files that only their owner may read: passwords, keys, secrets of a data directory."""

import json
import os
from pathlib import Path
from typing import Any


def read_private(path: Path) -> dict[str, Any] | None:
    """Return the object kept in the file, or None when there is no such file."""
    try:
        found: dict[str, Any] = json.loads(path.read_text())
    except FileNotFoundError:
        return None
    return found


def write_private(path: Path, values: dict[str, Any]) -> None:
    """Replace the file by these values at once, mode 0600: a crash leaves the old file or the new one."""
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    draft.unlink(missing_ok=True)
    with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        json.dump(values, file, indent=2)
        file.write("\n")
        file.flush()
        os.fsync(file.fileno())
    draft.replace(path)
