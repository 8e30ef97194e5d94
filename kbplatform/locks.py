"""Locks on files, which the kernel lets go when their holder ends, however it ends."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO


def _open(path: Path) -> IO[str]:
    return os.fdopen(os.open(path, os.O_RDWR | os.O_CREAT, 0o600), "r+")


@contextmanager
def exclusive(path: Path) -> Iterator[None]:
    """Hold the file's lock alone, after waiting for whoever holds it."""
    with _open(path) as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def hold_shared(path: Path) -> IO[str]:
    """Hold the file's lock together with others, until the returned file is closed."""
    file = _open(path)
    fcntl.flock(file, fcntl.LOCK_SH)
    return file


def try_exclusive(file: IO[str]) -> bool:
    """Turn a held or free lock into one held alone; False (and nothing held) when others hold it."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def try_hold(path: Path) -> IO[str] | None:
    """Hold the file's lock alone until the returned file is closed; None when another holds it."""
    file = _open(path)
    if try_exclusive(file):
        return file
    file.close()
    return None
