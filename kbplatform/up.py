"""`./kb up`: everything that serves, started in order, kept running, and stopped in the opposite order."""

import argparse
import http.client
import json
import os
import socket
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from kbplatform.commandline import PROJECT
from kbplatform.embedded import Cluster
from kbplatform.locks import try_hold
from kbplatform.private_files import read_private
from kbplatform.start_environment import QUICKSTART_FILE, environment
from kbplatform.supervisor import Program, Stopped, Supervisor, say

LOCK_FILE = "up.lock"
_READY_SECONDS = 600  # loading a large model from a slow disk
_PORT_SECONDS = 5  # a server that was just killed lets go of its port when its children have noticed
_MANAGE = [sys.executable, "-P", str(PROJECT / "manage.py")]


class NotStarted(Exception):
    """The platform could not be started; the message says what is in the way."""


@dataclass(frozen=True)
class Address:
    """Where the server listens."""

    host: str
    port: int

    @property
    def base_url(self) -> str:
        """The URL a program on this machine reaches it at."""
        host = "127.0.0.1" if self.host in {"0.0.0.0", "::", ""} else self.host  # noqa: S104 - compared, not bound
        return f"http://{f'[{host}]' if ':' in host else host}:{self.port}"


def up(options: argparse.Namespace) -> int:
    """Serve until INT or TERM and return 0; raises NotStarted when it can't, with nothing left running."""
    with _only_one(options.data) as lock, Supervisor() as supervisor, suppress(Stopped):
        address = _address(options.host, options.port)
        _announce(lock, address)
        with environment(options.data, stop_database=True) as (values, cluster):
            try:
                _start(supervisor, options, address, values)
                _report(options, address, values)
                supervisor.run(watch=lambda: _keep_alive(cluster))
            finally:
                supervisor.stop()  # before the database
    return 0


def _start(supervisor: Supervisor, options: argparse.Namespace, address: Address, values: Mapping[str, str]) -> None:
    demo = ["--no-demo"] if options.no_demo else []
    model = ["--no-torch"] if options.no_torch else []
    command = [*_MANAGE, "quickstart", "--data", str(options.data), "--origin", address.base_url, *demo, *model]
    if supervisor.run_once(Program("set-up", command, values)):
        raise NotStarted("the set-up failed; its messages are above")
    web = dict(values)
    if options.demo_upstream:
        web |= _start_demo_upstream(supervisor, values)
    supervisor.start(Program("worker", [*_MANAGE, "worker"], values, stop_seconds=30))
    drain = int(values.get("KB_DRAIN_SECONDS") or 30)  # the set-up has refused what is no number
    supervisor.start(Program("web", _web_command(address, drain), web, stop_seconds=drain + 10))
    ready = supervisor.wait_for(lambda: _ready(supervisor, address), seconds=_READY_SECONDS, every=0.3)
    if not ready:
        raise NotStarted(f"{address.base_url}/readyz did not answer 200 in {_READY_SECONDS} s")


def _web_command(address: Address, drain: int) -> list[str]:
    return [
        *(sys.executable, "-P", "-m", "uvicorn", "kbplatform.asgi:application"),
        *("--host", address.host, "--port", str(address.port)),
        *("--loop", "uvloop", "--http", "httptools", "--ws", "none"),
        *("--no-access-log", "--no-server-header", "--log-level", "warning"),
        *("--timeout-graceful-shutdown", str(drain)),
    ]


def _start_demo_upstream(supervisor: Supervisor, values: Mapping[str, str]) -> dict[str, str]:
    port = _free_port("127.0.0.1", 0)
    command = [sys.executable, "-P", "-m", "proxy.demo_upstream", "--port", str(port)]
    supervisor.start(Program("demo upstream", command, values, stop_seconds=5))
    return {"ANTHROPIC_BASE_URL": f"http://127.0.0.1:{port}", "ANTHROPIC_API_KEY": "demo-upstream"}


def _ready(supervisor: Supervisor, address: Address) -> bool:
    for name in ("web", "worker"):
        if supervisor.restarts(name) > 4:
            raise NotStarted(f"{name} ends again and again; its messages are above")
    host = address.base_url.removeprefix("http://")
    connection = http.client.HTTPConnection(host, timeout=5)
    try:
        connection.request("GET", "/readyz")
        return connection.getresponse().status == 200
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


def _keep_alive(cluster: Cluster | None) -> None:
    if cluster and not cluster.is_running():
        say("PostgreSQL ended; starting it again")
        cluster.start(die_with_parent=True)


# --- one server per data directory, and its address


@contextmanager
def _only_one(data: Path) -> Iterator[IO[str]]:
    path = data / LOCK_FILE
    lock = try_hold(path)
    if lock is None:
        raise NotStarted(f"already running on this data directory ({path.read_text().strip() or 'just starting'})")
    with lock:
        lock.truncate(0)
        yield lock
        lock.truncate(0)


def _announce(lock: IO[str], address: Address) -> None:
    lock.seek(0)
    lock.write(f"pid {os.getpid()}, {address.base_url}")
    lock.flush()


def _address(host: str, port: int) -> Address:
    end = time.monotonic() + _PORT_SECONDS
    while True:
        try:
            return Address(host, _free_port(host, port))
        except OSError as error:
            if time.monotonic() > end:
                message = f"cannot listen on {host}:{port}: {error.strerror}; choose another with --port"
                raise NotStarted(message) from error
        time.sleep(0.2)


def _free_port(host: str, port: int) -> int:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        probe.bind((host, port))
        return int(probe.getsockname()[1])


# --- what is said when it serves


def _report(options: argparse.Namespace, address: Address, values: Mapping[str, str]) -> None:
    facts = read_private(options.data / QUICKSTART_FILE) or {}
    told = {name: facts.get(name) for name in ("tenant", "team_key", "widget_key", "admin")}
    database = values.get("DATABASE_URL", "")
    line = {"ready": True, "base_url": address.base_url, **told, "database_url": database}
    text = json.dumps(line) if options.json else _greeting(options, address, facts)
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def _greeting(options: argparse.Namespace, address: Address, facts: Mapping[str, object]) -> str:
    admin = facts["admin"]
    assert isinstance(admin, dict)  # noqa: S101
    given = options.demo_upstream or os.environ.get("ANTHROPIC_API_KEY") or os.environ.get("ANTHROPIC_API_KEY_FILE")
    upstream = "" if given else "\nNo upstream credential yet: set ANTHROPIC_API_KEY, or try ./kb up --demo-upstream.\n"
    return f"""
kbplatform serves at {address.base_url}

  sign in      {address.base_url}/admin/   {admin["username"]}   {admin["password"] or "(the password you chose)"}
  widget key   {facts["widget_key"]}
  all of it    {options.data / QUICKSTART_FILE}

Point Claude Code at it:

  export ANTHROPIC_BASE_URL={address.base_url}
  export ANTHROPIC_AUTH_TOKEN={facts["team_key"]}

and the SDK:

  Anthropic(base_url="{address.base_url}", api_key="{facts["team_key"]}")

Feed it:   ./kb manage ingest FOLDER --tenant {facts["tenant"]}
Stop it:   Ctrl-C
{upstream}"""
