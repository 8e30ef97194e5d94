"""Facts about the processes of this machine, asked of the kernel."""

import os
import subprocess
from pathlib import Path


def command_line(pid: int) -> bytes:
    """The command line of a process, empty when there is none (or it is dead and not yet waited for)."""
    if Path("/proc/self/cmdline").exists():
        try:
            return Path(f"/proc/{pid}/cmdline").read_bytes()
        except OSError:
            return b""
    return subprocess.run(["ps", "-o", "command=", "-p", str(pid)], capture_output=True, check=False).stdout


def is_taken(pid: int) -> bool:
    """Whether some process has this number, a dead one not yet waited for included."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def working_folder(process: Path) -> str:
    try:
        return str((process / "cwd").readlink())
    except OSError:
        return ""
