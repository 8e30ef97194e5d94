"""The supervisor, with real programs and real signals."""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from kbplatform.processes import command_line, is_taken
from kbplatform.supervisor import Program, Stopped, Supervisor
from tests.waiting import until

PROJECT = Path(__file__).resolve().parents[2]
FOREVER = "import signal; signal.pause()"
STUBBORN = (
    "import signal, sys; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('deaf', flush=True); signal.pause()"
)


def _program(code: str, *arguments: object, name: str = "sleeper", stop_seconds: float = 10) -> Program:
    command = [sys.executable, "-c", code, *map(str, arguments)]
    return Program(name, command, os.environ, stop_seconds)


@pytest.fixture
def supervisor() -> Iterator[Supervisor]:
    with Supervisor() as running:
        yield running


def _gone(pid: int) -> bool:
    return not command_line(pid)


def test_it_works(supervisor: Supervisor) -> None:
    supervisor.start(_program(FOREVER, name="one"))
    supervisor.start(_program(FOREVER, name="two"))
    pids = supervisor.processes()
    assert set(pids) == {"one", "two"}
    assert all(is_taken(pid) for pid in pids.values())
    supervisor.stop()
    assert not any(is_taken(pid) for pid in pids.values())


def test_starts_again_what_ends_even_with_status_0(supervisor: Supervisor, tmp_path: Path) -> None:
    log = tmp_path / "log"
    code = "import sys; open(sys.argv[1], 'a').write('x')"
    supervisor.start(_program(code, log))
    assert supervisor.wait_for(lambda: log.exists() and len(log.read_text()) >= 2, seconds=20)
    assert supervisor.restarts("sleeper") >= 1


def test_starts_again_what_is_killed(supervisor: Supervisor) -> None:
    supervisor.start(_program(FOREVER))
    first = supervisor.processes()["sleeper"]
    os.kill(first, signal.SIGKILL)
    assert supervisor.wait_for(lambda: supervisor.processes().get("sleeper", first) != first, seconds=20)


def test_waits_longer_before_each_restart(supervisor: Supervisor, capfd: pytest.CaptureFixture[str]) -> None:
    supervisor.start(_program("raise SystemExit(3)"))
    assert supervisor.wait_for(lambda: supervisor.restarts("sleeper") >= 2, seconds=30)
    said = capfd.readouterr().err
    assert "sleeper ended with status 3; starting it again in 0.2 s" in said
    assert "in 0.4 s" in said


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_signal_ends_the_wait(supervisor: Supervisor, number: signal.Signals) -> None:
    supervisor.start(_program(FOREVER))
    threading.Timer(0.1, os.kill, [os.getpid(), number]).start()
    with pytest.raises(Stopped):
        supervisor.run()


def test_a_signal_before_the_wait_is_not_lost(supervisor: Supervisor) -> None:
    os.kill(os.getpid(), signal.SIGTERM)
    with pytest.raises(Stopped):
        supervisor.run()


def test_handlers_are_as_before_afterwards() -> None:
    before = signal.getsignal(signal.SIGTERM)
    with Supervisor():
        assert signal.getsignal(signal.SIGTERM) != before
    assert signal.getsignal(signal.SIGTERM) == before


def test_run_once_gives_the_status(supervisor: Supervisor) -> None:
    assert supervisor.run_once(_program("raise SystemExit(7)")) == 7
    assert supervisor.processes() == {}


def test_run_once_is_ended_by_a_signal(supervisor: Supervisor, tmp_path: Path) -> None:
    file = tmp_path / "pid"
    code = "import os, signal, sys; open(sys.argv[1], 'w').write(str(os.getpid())); signal.pause()"

    def stop_when_it_runs() -> None:
        until(lambda: file.exists() and file.read_text())
        os.kill(os.getpid(), signal.SIGTERM)

    thread = threading.Thread(target=stop_when_it_runs)
    thread.start()
    with pytest.raises(Stopped):
        supervisor.run_once(_program(code, file))
    thread.join()
    assert _gone(int(file.read_text()))


def test_stop_kills_what_does_not_listen(supervisor: Supervisor, capfd: pytest.CaptureFixture[str]) -> None:
    supervisor.start(_program(STUBBORN, stop_seconds=0.2))
    until(lambda: "deaf" in capfd.readouterr().err)
    pid = supervisor.processes()["sleeper"]
    supervisor.stop()
    assert _gone(pid)


def test_stop_leaves_no_grandchild(supervisor: Supervisor, tmp_path: Path) -> None:
    file = tmp_path / "pid"
    code = (
        "import signal, subprocess, sys\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import signal; signal.pause()'])\n"
        "open(sys.argv[1], 'w').write(str(child.pid)); signal.pause()"
    )
    supervisor.start(_program(code, file))
    grandchild = int(until(lambda: file.exists() and file.read_text()))
    supervisor.stop()

    assert until(lambda: _gone(grandchild))


def test_programs_say_nothing_on_standard_output(supervisor: Supervisor, capfd: pytest.CaptureFixture[str]) -> None:
    supervisor.run_once(_program("print('chatter')"))
    said = capfd.readouterr()
    assert said.out == ""
    assert "chatter" in said.err


def test_programs_end_when_the_supervisor_is_killed(tmp_path: Path) -> None:
    code = (
        "import os, sys; from kbplatform.supervisor import Program, Supervisor\n"
        "with Supervisor() as supervisor:\n"
        f"    supervisor.start(Program('sleeper', [sys.executable, '-c', {FOREVER!r}], os.environ))\n"
        "    print(supervisor.processes()['sleeper'], flush=True)\n"
        "    supervisor.run()"
    )
    process = subprocess.Popen([sys.executable, "-c", code], cwd=PROJECT, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    child = int(process.stdout.readline())
    process.kill()
    process.communicate()
    until(lambda: _gone(child))
