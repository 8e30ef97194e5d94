"""Keeps the programs of one server running, and stops them all when told to.

One process, one loop: it sleeps until a child ends, a signal comes or a restart is due. Children lead their own
process groups, so that Ctrl-C in a terminal reaches the supervisor alone, and they end when it ends.
"""

import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from types import FrameType

from kbplatform.lifeline import dies_with_parent

FIRST_DELAY, LONGEST_DELAY = 0.2, 10.0  # seconds before a restart; doubled each time
SETTLED = 30.0  # seconds after which a program counts as healthy again
_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


class Stopped(Exception):
    """A signal asked the supervisor to stop."""


@dataclass(frozen=True)
class Program:
    """A program to keep running: its name in messages, command, environment, and seconds it gets to stop."""

    name: str
    command: Sequence[str]
    environment: Mapping[str, str]
    stop_seconds: float = 30.0


@dataclass
class _Child:
    program: Program
    process: "subprocess.Popen[bytes] | None" = None
    started: float = 0.0
    delay: float = FIRST_DELAY
    due: float = 0.0
    restarts: int = 0


def say(text: str) -> None:
    """Tell the person at the terminal; standard output is for the ready line alone."""
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()


class Supervisor:
    """Starts programs, restarts each one that ends, and stops all of them; use it as a context manager.

    Within the context TERM, INT and HUP raise Stopped out of the waiting methods. A second signal while
    stopping kills what is left. The main thread only.
    """

    def __init__(self) -> None:
        self._children: list[_Child] = []
        self._told_to_stop = 0
        self._reader = self._writer = -1
        self._previous: dict[int, object] = {}

    def __enter__(self) -> "Supervisor":
        self._reader, self._writer = os.pipe()
        os.set_blocking(self._reader, False)
        os.set_blocking(self._writer, False)
        signal.set_wakeup_fd(self._writer, warn_on_full_buffer=False)
        for number in (*_SIGNALS, signal.SIGCHLD):
            self._previous[number] = signal.signal(number, self._on_signal)
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
        signal.set_wakeup_fd(-1)
        for number, handler in self._previous.items():
            signal.signal(number, handler)  # type: ignore[arg-type]
        os.close(self._reader)
        os.close(self._writer)

    def start(self, program: Program) -> None:
        """Start a program and keep it running from now on."""
        child = _Child(program)
        self._children.append(child)
        self._spawn(child)

    def restarts(self, name: str) -> int:
        """How often the named program had to be restarted."""
        return sum(child.restarts for child in self._children if child.program.name == name)

    def processes(self) -> dict[str, int]:
        """Process ids of the programs that are running now, by name."""
        return {child.program.name: child.process.pid for child in self._children if child.process}

    def run_once(self, program: Program) -> int:
        """Run a program to its end and return its exit status; Stopped kills it."""
        process = _popen(program)
        try:
            while process.poll() is None:
                self._turn(0.2)
            return process.returncode
        finally:
            _end([process], program.stop_seconds, hurry=lambda: self._told_to_stop > 1)

    def wait_for(self, condition: Callable[[], bool], *, seconds: float, every: float = 0.1) -> bool:
        """Keep everything running until the condition holds; False when it did not in that time."""
        end = time.monotonic() + seconds
        while not condition():
            if time.monotonic() > end:
                return False
            self._turn(every)
        return True

    def run(self, watch: Callable[[], object] = lambda: None) -> None:
        """Keep everything running until a signal raises Stopped.

        `watch` is called about once a second, for what is kept alive by other means (the database).
        """
        while True:
            self._turn(1.0)
            watch()

    def stop(self) -> None:
        """Ask all programs to stop, the last started first, and wait until nothing of them is left."""
        running = [child.process for child in reversed(self._children) if child.process]
        longest = max((child.program.stop_seconds for child in self._children), default=0)
        self._children.clear()
        _end(running, longest, hurry=lambda: self._told_to_stop > 1)

    def _on_signal(self, number: int, _frame: FrameType | None) -> None:
        if number != signal.SIGCHLD:
            self._told_to_stop += 1

    def _turn(self, seconds: float) -> None:
        """Sleep until something happens or the time is over, then see to the children."""
        if not self._told_to_stop:
            select.select([self._reader], [], [], min([seconds, *self._pauses()]))
        with suppress(BlockingIOError):
            os.read(self._reader, 4096)
        if self._told_to_stop:
            raise Stopped
        for child in self._children:
            self._see_to(child)

    def _pauses(self) -> list[float]:
        now = time.monotonic()
        return [max(0.0, child.due - now) for child in self._children if child.process is None]

    def _see_to(self, child: _Child) -> None:
        now = time.monotonic()
        if child.process is None:
            if now >= child.due:
                child.restarts += 1
                self._spawn(child)
        elif child.process.poll() is not None:
            status = child.process.returncode
            _kill_group(child.process.pid)
            if now - child.started > SETTLED:
                child.delay = FIRST_DELAY
            say(f"{child.program.name} ended with status {status}; starting it again in {child.delay:.1f} s")
            child.process, child.due = None, now + child.delay
            child.delay = min(child.delay * 2, LONGEST_DELAY)

    def _spawn(self, child: _Child) -> None:
        child.started = time.monotonic()
        child.process = _popen(child.program)


def _popen(program: Program) -> "subprocess.Popen[bytes]":
    return subprocess.Popen(
        list(program.command),
        env=dict(program.environment),
        stdin=subprocess.DEVNULL,
        stdout=sys.stderr.fileno(),
        start_new_session=True,
        preexec_fn=dies_with_parent(signal.SIGTERM),  # noqa: PLW1509 - the supervisor has one thread
    )


def _kill_group(leader: int) -> None:
    """End what a program that is gone has left of its process group."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(leader, signal.SIGKILL)


def _end(processes: Sequence["subprocess.Popen[bytes]"], seconds: float, *, hurry: Callable[[], bool]) -> None:
    """TERM all of them at once, KILL those still there after the time, and what they left behind."""
    for process in processes:
        if process.poll() is None:
            process.terminate()
    end = time.monotonic() + seconds
    while any(process.poll() is None for process in processes):
        if time.monotonic() > end or hurry():
            break
        time.sleep(0.02)
    for process in processes:
        _kill_group(process.pid)
        process.wait()
