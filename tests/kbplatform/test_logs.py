"""What a log line holds."""

import subprocess
import sys

import pytest

_FAILING = """
import logging, logging.config
import structlog
from kbplatform.logs import logging_config

logging.config.dictConfig(logging_config(level="INFO", style={style!r}))

def fail(secret):
    raise ValueError("went wrong")

for log in (logging.getLogger("django.request"), structlog.get_logger("ours")):
    try:
        fail("of-" + "nobody-else")
    except ValueError:
        log.exception("it failed")
"""


@pytest.mark.parametrize("style", ["console", "json"])
def test_a_traceback_tells_where_and_holds_no_values(style: str) -> None:
    command = [sys.executable, "-W", "error", "-c", _FAILING.format(style=style)]
    written = subprocess.run(command, capture_output=True, text=True, check=True).stderr
    assert written.count("ValueError: went wrong") == 2
    assert written.count("in fail") == 2
    assert "of-nobody-else" not in written
