"""The environment that the platform's programs get from the launcher: database addresses and secrets."""

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from kbplatform.commandline import PROJECT
from kbplatform.embedded import ADDRESSES, Cluster
from kbplatform.private_files import read_private, write_private

SECRETS_FILE = "secrets.json"
QUICKSTART_FILE = "quickstart.json"  # keys and password of the first start, made by kbplatform/quickstart.py


class NoDatabase(Exception):
    """Of an external database all three addresses are needed, one per role."""


@contextmanager
def environment(data: Path, *, stop_database: bool = False) -> Iterator[tuple[dict[str, str], Cluster | None]]:
    """Yield the environment for our programs, and the embedded cluster unless a database was given.

    The cluster runs at least as long as the context. `stop_database` ends it with the context and with this
    process, whoever else uses it; else the last user's leaving does. Raises NoDatabase and what Cluster raises.
    """
    values = {**os.environ, "PYTHONPATH": str(PROJECT), "DJANGO_SETTINGS_MODULE": "kbplatform.settings"}
    values.update(_secrets(data))
    if _given("DATABASE_URL"):
        missing = [name for name in ADDRESSES if not _given(name)]
        if missing:
            raise NoDatabase(f"DATABASE_URL is set, {', '.join(missing)} not; see docs/operations.md")
        yield values, None
        return
    cluster = Cluster(data)
    try:
        with cluster.in_use(die_with_parent=stop_database):
            yield {**values, **cluster.urls()}, cluster
    finally:
        if stop_database:
            cluster.stop()


def _given(name: str) -> bool:
    return bool(os.environ.get(name) or os.environ.get(f"{name}_FILE"))


def _secrets(data: Path) -> dict[str, str]:
    """The data directory's own secrets, made on the first start, where the environment gives none."""
    path = data / SECRETS_FILE
    kept = read_private(path)
    if kept is None:
        kept = {
            "KB_SECRET_KEY": secrets.token_urlsafe(48),
            "KB_KEY_PEPPERS": f"1:{secrets.token_hex(32)}",
            "KB_CREDENTIAL_KEYS": f"1:{secrets.token_hex(32)}",
        }
        write_private(path, kept)
    return {name: value for name, value in kept.items() if not _given(name)}
