"""Children that end with their parent, however the parent ends."""

import ctypes
import os
import signal
import sys
from collections.abc import Callable

_PR_SET_PDEATHSIG = 1  # linux/prctl.h


def dies_with_parent(number: signal.Signals = signal.SIGTERM) -> Callable[[], None] | None:
    """Return a preexec function after which the kernel sends `number` to the child when its parent dies.

    None where the kernel has no such thing (anything but Linux). Call it in the thread that starts the
    child: the kernel watches that thread. A change of user in between would undo it; subprocess changes
    the user first.
    """
    if sys.platform != "linux":
        return None
    prctl = ctypes.CDLL(None, use_errno=True).prctl
    parent = os.getpid()

    def ask_kernel() -> None:
        prctl(_PR_SET_PDEATHSIG, int(number))
        if os.getppid() != parent:  # it died before we asked
            os._exit(1)

    return ask_kernel
