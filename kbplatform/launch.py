"""What `./kb` does once the environment is there: `python -m kbplatform.launch up …` or `manage …`."""

import os
import signal
import sys
from pathlib import Path
from types import FrameType

from kbplatform import commandline
from kbplatform.embedded import ClusterFailed
from kbplatform.environment import BadSetting
from kbplatform.postgres_account import NoAccount, NoProgram
from kbplatform.start_environment import NoDatabase, environment
from kbplatform.supervisor import say
from kbplatform.up import NotStarted, up


def main(arguments: list[str]) -> int:
    """Carry out one `./kb` call and return its exit status."""
    options = commandline.parse(arguments)
    options.data = options.data.resolve()
    if options.data.exists() and not options.data.is_dir():
        say(f"kb: {options.data} is no folder; choose another with --data")
        return 1
    try:
        options.data.mkdir(parents=True, exist_ok=True)
        if options.action == "up":
            return up(options)
    except (ClusterFailed, NoAccount, NoDatabase, NoProgram, NotStarted, OSError) as error:
        say(f"kb: {error}")
        return 1
    return manage(options.data, options.arguments)


def manage(data: Path, arguments: list[str]) -> int:
    """Run a management command in this process, with the running database server or one of its own."""
    signal.signal(signal.SIGTERM, _leave)  # a server that we started stops with us
    try:
        with environment(data) as (values, _):
            os.environ.update(values)
            from django.core.management import execute_from_command_line

            execute_from_command_line(["kb manage", *arguments])
    except (BadSetting, ClusterFailed, NoAccount, NoDatabase, NoProgram) as error:
        say(f"kb: {error}")
        return 1
    return 0


def _leave(number: int, _frame: FrameType | None) -> None:
    sys.exit(128 + number)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
