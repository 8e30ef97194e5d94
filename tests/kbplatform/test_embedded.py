"""The embedded PostgreSQL, as the launcher and the tests themselves use it."""

import json
import os
import signal
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import LiteralString

import psycopg
import pytest

from kbplatform.embedded import CREDENTIALS, Cluster, ClusterFailed
from kbplatform.postgres_account import account_for, programs
from tests.waiting import until

PROJECT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def shared() -> Iterator[Cluster]:
    """One running cluster for the tests that leave it as it was."""
    with tempfile.TemporaryDirectory(prefix="kb-embedded-") as folder:
        Path(folder).chmod(0o755)
        cluster = Cluster(Path(folder) / "data", durable=False).start()
        yield cluster
        cluster.remove()


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder that PostgreSQL's account can enter, unlike pytest's own."""
    with tempfile.TemporaryDirectory(prefix="kb-embedded-") as name:
        Path(name).chmod(0o755)
        yield Path(name)


def _ask(url: str, question: LiteralString) -> tuple[object, ...] | None:
    with psycopg.connect(url) as connection:
        return connection.execute(question).fetchone()


def _server_pid(cluster: Cluster) -> int:
    return int((cluster.home / "data" / "postmaster.pid").read_text().split("\n", 1)[0])


def test_it_works(shared: Cluster) -> None:
    for role, name in (
        ("kb_owner", "KB_OWNER_DATABASE_URL"),
        ("kb_app", "DATABASE_URL"),
        ("kb_staff", "KB_STAFF_DATABASE_URL"),
    ):
        assert _ask(shared.urls()[name], "SELECT current_user, current_database()") == (role, "kbplatform")


def test_knows_the_letters_of_every_script(shared: Cluster) -> None:
    question = r"SELECT lower('ПРИВЕТ ÑANDÚ'), 'ё' ~ '^\w$', upper('straße'), to_tsvector('russian', 'порогами')::text"
    assert _ask(shared.urls()["DATABASE_URL"], question) == ("привет ñandú", True, "STRAßE", "'порог':1")


def test_has_vectors(shared: Cluster) -> None:
    assert _ask(shared.urls()["DATABASE_URL"], "SELECT ('[1,2]'::halfvec <=> '[2,4]') < 0.001") == (True,)


def test_no_role_of_ours_is_more_than_it_should_be(shared: Cluster) -> None:
    question = """SELECT count(*) FROM pg_roles WHERE rolname LIKE 'kb\\_%'
        AND (rolsuper OR rolbypassrls OR rolcreaterole OR rolcreatedb)"""
    assert _ask(shared.superuser_url(), question) == (0,)


@pytest.mark.parametrize("role", ["postgres", "kb_app"])
def test_nobody_gets_in_without_the_password(shared: Cluster, role: str) -> None:
    url = shared.superuser_url()
    port = psycopg.conninfo.conninfo_to_dict(url)["port"]
    with pytest.raises(psycopg.OperationalError, match="password authentication failed"):
        psycopg.connect(f"postgresql://{role}:wrong@127.0.0.1:{port}/kbplatform")


def test_passwords_are_for_the_owner_only(shared: Cluster) -> None:
    file = shared.data_dir / CREDENTIALS
    passwords = json.loads(file.read_text())["passwords"]
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert len(set(passwords.values())) == 4
    assert stat.S_IMODE(shared.home.stat().st_mode) == 0o700


def test_listens_on_loopback_only(shared: Cluster) -> None:
    question = "SELECT current_setting('listen_addresses'), current_setting('unix_socket_directories')"
    assert _ask(shared.superuser_url(), question) == ("127.0.0.1", "")


def test_another_database_is_prepared_too(shared: Cluster) -> None:
    urls = shared.create_database("another")
    shared.create_database("another")
    assert _ask(urls["DATABASE_URL"], "SELECT current_database(), '[1]'::vector::text") == ("another", "[1]")


def test_a_second_object_finds_the_running_server(shared: Cluster) -> None:
    other = Cluster(shared.data_dir)
    pid = _server_pid(shared)
    assert other.is_running()
    other.start()
    assert _server_pid(other) == pid


def test_data_and_addresses_outlive_a_restart(folder: Path) -> None:
    cluster = Cluster(folder, durable=False).start()
    before = cluster.urls()
    with psycopg.connect(before["KB_OWNER_DATABASE_URL"]) as connection:
        connection.execute("CREATE TABLE kept (n) AS SELECT 7")
    cluster.stop()
    assert not cluster.is_running()
    cluster.start()
    assert cluster.urls() == before
    assert _ask(before["KB_OWNER_DATABASE_URL"], "SELECT n FROM kept") == (7,)
    cluster.remove()


def test_starts_after_kill_9(folder: Path) -> None:
    cluster = Cluster(folder, durable=False).start()
    os.kill(_server_pid(cluster), signal.SIGKILL)
    until(lambda: not cluster.is_running())
    assert cluster.start().is_running()
    cluster.remove()


def test_a_pid_file_naming_another_program_is_no_obstacle(folder: Path) -> None:
    cluster = Cluster(folder, durable=False).start()
    cluster.stop()
    file = cluster.home / "data" / "postmaster.pid"
    file.write_text(f"{os.getpid()}\n{cluster.home / 'data'}\n1\n5432\n\n127.0.0.1\n\nready\n")
    assert not cluster.is_running()
    assert cluster.start().is_running()
    cluster.remove()


def test_a_first_start_cut_short_is_made_good(folder: Path) -> None:
    cluster = Cluster(folder, durable=False).start()
    cluster.stop()
    facts = json.loads((folder / CREDENTIALS).read_text())
    (folder / CREDENTIALS).write_text(json.dumps({**facts, "initialised": False, "prepared": ""}))
    (cluster.home / "data" / "PG_VERSION").unlink()
    assert _ask(cluster.start().urls()["DATABASE_URL"], "SELECT 1") == (1,)
    cluster.remove()


def test_a_database_whose_passwords_are_lost_is_not_deleted(folder: Path) -> None:
    cluster = Cluster(folder, durable=False).start()
    cluster.stop()
    (folder / CREDENTIALS).unlink()
    with pytest.raises(ClusterFailed, match="is missing beside it"):
        Cluster(folder).start()
    assert (folder / "postgres" / "data" / "PG_VERSION").exists()


def test_leaves_permissions_above_alone(folder: Path) -> None:
    closed = folder / "closed"
    closed.mkdir(mode=0o700)
    cluster = Cluster(closed / "data", durable=False).start()
    assert stat.S_IMODE(closed.stat().st_mode) == 0o700
    assert _ask(cluster.urls()["DATABASE_URL"], "SELECT 1") == (1,)
    home = cluster.home
    assert home.is_relative_to(closed) == (os.geteuid() != 0)
    cluster.remove()
    assert not home.exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root runs PostgreSQL as another account")
def test_root_runs_it_as_another_account(shared: Cluster) -> None:
    owner = Path(f"/proc/{_server_pid(shared)}").stat().st_uid
    assert owner == account_for(shared.home).uid != 0


@pytest.mark.skipif(os.geteuid() != 0, reason="only root runs PostgreSQL as another account")
def test_programs_are_copied_where_the_account_cannot_reach_them(
    shared: Cluster, monkeypatch: pytest.MonkeyPatch, folder: Path
) -> None:
    account = account_for(shared.home)
    package = programs(account).parents[1]
    closed = folder / "closed"
    closed.mkdir(mode=0o700)
    (closed / package.name).symlink_to(package)
    monkeypatch.setattr("kbplatform.postgres_account.SYSTEM_HOME", folder / "system")
    monkeypatch.syspath_prepend(closed)
    copied = programs(account)
    assert copied.is_relative_to(folder / "system")
    version = subprocess.run(
        [copied / "postgres", "--version"], capture_output=True, text=True, check=True, **account.popen_options()
    )
    assert "PostgreSQL) 18" in version.stdout


def _user(data: Path, action: str) -> "subprocess.Popen[str]":
    """Another process that starts or uses the cluster and holds on until its input closes."""
    code = (
        "import sys; from kbplatform.embedded import Cluster\n"
        "cluster = Cluster(sys.argv[1], durable=False)\n"
        f"with {action}:\n    print('in use', flush=True); sys.stdin.read()\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", code, str(data)], cwd=PROJECT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "in use\n"
    return process


def test_the_last_user_stops_it(folder: Path) -> None:
    first, second = _user(folder, "cluster.in_use()"), _user(folder, "cluster.in_use()")
    cluster = Cluster(folder)
    pid = _server_pid(cluster)
    first.communicate()
    assert cluster.is_running()
    assert _server_pid(cluster) == pid
    second.communicate()
    assert not cluster.is_running()


def test_two_first_users_at_once_make_one_cluster(folder: Path) -> None:
    code = (
        "import sys; from kbplatform.embedded import Cluster\n"
        "with Cluster(sys.argv[1], durable=False).in_use() as cluster: print(cluster.urls())"
    )
    commands = [[sys.executable, "-c", code, str(folder)] for _ in range(3)]
    users = [subprocess.Popen(command, cwd=PROJECT, stdout=subprocess.PIPE, text=True) for command in commands]
    answers = [user.communicate(timeout=60)[0] for user in users]
    assert [user.returncode for user in users] == [0, 0, 0]
    assert len({json.dumps(answer) for answer in answers}) == 1
    assert not Cluster(folder).is_running()


def test_dies_with_its_parent_when_asked(folder: Path) -> None:
    parent = _user(folder, "cluster.in_use(die_with_parent=True)")
    cluster = Cluster(folder)
    parent.kill()
    parent.communicate()
    until(lambda: not cluster.is_running())
    started = time.monotonic()
    assert cluster.start().is_running()
    assert time.monotonic() - started < 30
    cluster.remove()
