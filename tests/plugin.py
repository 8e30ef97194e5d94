"""Starts one real PostgreSQL for the test run and points the settings at it, before Django is set up."""

from __future__ import annotations

import atexit
import os
import secrets
import shutil
import tempfile
from pathlib import Path

from kbplatform.embedded import Cluster

_FOLDER = Path(tempfile.mkdtemp(prefix="kbplatform-tests-"))
# PostgreSQL never runs as root; as root it runs as another user, who must be able to get in.
_FOLDER.chmod(0o755)
CLUSTER = Cluster(_FOLDER / "data", durable=False)


def _start() -> None:
    for name in list(os.environ):
        if name.startswith(("KB_", "ANTHROPIC_", "CLAW_")) and name not in {
            "KB_MODEL_DIR",
            "KB_REQUIRE_BROWSER",
        }:
            del os.environ[name]
    atexit.register(_stop)
    CLUSTER.start(die_with_parent=True)  # also when the run is killed
    os.environ.update(CLUSTER.urls())
    os.environ.update(
        DJANGO_SETTINGS_MODULE="kbplatform.settings",
        KB_SECRET_KEY=secrets.token_hex(32),
        KB_KEY_PEPPERS=f"t1:{secrets.token_hex(32)}",
        KB_CREDENTIAL_KEYS=f"t1:{secrets.token_hex(32)}",
        KB_EMBEDDING_PROVIDER="hash",
        KB_LOG_LEVEL="WARNING",
    )


def _stop() -> None:
    CLUSTER.stop()
    shutil.rmtree(_FOLDER, ignore_errors=True)


if os.environ.get("PYTEST_XDIST_WORKER") or not os.environ.get("KB_TEST_NO_CLUSTER"):
    _start()
