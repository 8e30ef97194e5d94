"""`./kb` as a person runs it: started once on a fresh data directory, with the environment that is here."""

import json
import os
import signal
import stat
import subprocess
import sys
import tempfile
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

import pytest

from kbplatform.commandline import PROJECT, parse
from kbplatform.processes import command_line
from kbplatform.start_environment import SECRETS_FILE
from tests.waiting import until

KB = PROJECT / "kb"


def _environment(home: Path, **more: str) -> dict[str, str]:
    """That of a person who has set nothing, whatever this test run has."""
    ours = ("KB_", "CLAW_", "ANTHROPIC_", "DATABASE_URL", "DJANGO_SETTINGS_MODULE", "PYTHONPATH", "PYTEST")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
    return kept | {"HOME": str(home), "KB_VENV": sys.prefix, "KB_EMBEDDING_PROVIDER": "hash"} | more


@dataclass
class Server:
    """A data directory and the `./kb up` on it."""

    folder: Path
    processes: list["subprocess.Popen[str]"] = field(default_factory=list)

    @property
    def data(self) -> Path:
        return self.folder / "data"

    def up(self, *options: str, **environ: str) -> dict[str, Any]:
        """Start and return the facts of the ready line."""
        process = self.begin(*options, **environ)
        line = _reader(process).readline()
        assert line, (self.folder / "log").read_text()
        facts: dict[str, Any] = json.loads(line)
        return facts

    def begin(self, *options: str, **environ: str) -> "subprocess.Popen[str]":
        command: list[str | Path] = [KB, "up", "--data", "data", "--port", "0", "--json", *options]
        with (self.folder / "log").open("a") as log:
            process = subprocess.Popen(
                command,
                cwd=self.folder,  # not the project's folder, and the data directory is relative to it
                env=_environment(self.folder, **environ),
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                start_new_session=True,
            )
        self.processes.append(process)
        return process

    def manage(self, *arguments: str) -> "subprocess.CompletedProcess[str]":
        command: list[str | Path] = [KB, "manage", "--data", self.data, *arguments]
        return subprocess.run(
            command, cwd=self.folder, env=_environment(self.folder), capture_output=True, text=True, timeout=120
        )

    def stop(self) -> str:
        """Send TERM, wait, and return what was still said on standard output."""
        process = self.processes.pop()
        process.terminate()
        with _reader(process) as reader:
            said = reader.read()
        assert process.wait(60) == 0
        return said

    def left_over(self) -> list[bytes]:
        """Command lines of processes that name the data directory."""
        pids = (int(entry.name) for entry in Path("/proc").glob("[0-9]*"))
        lines = (command_line(pid) for pid in pids if pid != os.getpid())
        return [line for line in lines if os.fsencode(self.data) in line]


def _reader(process: "subprocess.Popen[str]") -> IO[str]:
    assert process.stdout is not None
    return process.stdout


def _status(url: str, **headers: str) -> int:
    request = urllib.request.Request(url, headers=headers)
    try:
        with urllib.request.urlopen(request, timeout=10) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        with error:
            return error.code


def _make_server() -> Iterator[Server]:
    with tempfile.TemporaryDirectory(prefix="kb-launcher-") as name:
        Path(name).chmod(0o755)
        server = Server(Path(name).resolve())
        yield server
        for process in server.processes:
            process.kill()
            _reader(process).close()
            process.wait()
        until(lambda: not server.left_over(), seconds=30)


@pytest.fixture(scope="module")
def shared() -> Iterator[Server]:
    yield from _make_server()


@pytest.fixture(scope="module")
def facts(shared: Server) -> dict[str, Any]:
    """The ready line of the one server that most tests here share."""
    return shared.up("--no-demo")


@pytest.fixture
def fresh() -> Iterator[Server]:
    yield from _make_server()


def test_it_works(facts: dict[str, Any]) -> None:
    assert facts["ready"] is True
    assert facts["tenant"] == "demo"
    assert facts["team_key"].startswith("kb_sk_")
    assert facts["widget_key"].startswith("kb_pk_")
    assert facts["admin"]["username"] == "admin"
    assert facts["database_url"].startswith("postgresql://kb_app:")
    assert _status(f"{facts['base_url']}/readyz") == 200


def test_the_ready_line_has_the_promised_names(facts: dict[str, Any]) -> None:
    assert list(facts) == ["ready", "base_url", "tenant", "team_key", "widget_key", "admin", "database_url"]


def test_the_team_key_opens_the_machine_paths(facts: dict[str, Any]) -> None:
    url = f"{facts['base_url']}/v1/stats"
    assert _status(url, Authorization=f"Bearer {facts['team_key']}") == 200
    assert _status(url, Authorization=f"Bearer {facts['widget_key']}") == 401


def test_what_was_made_stays_private(shared: Server, facts: dict[str, Any]) -> None:
    for name in ("quickstart.json", SECRETS_FILE, "postgres-credentials.json"):
        assert stat.S_IMODE((shared.data / name).stat().st_mode) == 0o600
    kept = json.loads((shared.data / "quickstart.json").read_text())
    assert kept["team_key"] == facts["team_key"]


def test_the_home_folder_is_left_alone(shared: Server, facts: dict[str, Any]) -> None:
    assert sorted(path.name for path in shared.folder.iterdir()) == ["data", "log"]


def test_no_secret_reaches_the_database_server(shared: Server, facts: dict[str, Any]) -> None:
    pid = int((shared.data / "postgres" / "data" / "postmaster.pid").read_text().split("\n", 1)[0])
    assert b"KB_" not in Path(f"/proc/{pid}/environ").read_bytes()


def test_a_second_server_on_the_same_data_is_refused(shared: Server, facts: dict[str, Any]) -> None:
    command: list[str | Path] = [KB, "up", "--data", shared.data, "--json"]
    refused = subprocess.run(command, env=_environment(shared.folder), capture_output=True, text=True, timeout=60)
    assert refused.returncode == 1
    assert refused.stdout == ""
    pid = shared.processes[0].pid
    assert f"already running on this data directory (pid {pid}, {facts['base_url']})" in refused.stderr


def test_a_taken_port_is_named(fresh: Server, facts: dict[str, Any]) -> None:
    port = facts["base_url"].rpartition(":")[2]
    process = fresh.begin("--port", port)
    with _reader(process) as reader:
        assert reader.read() == ""
    assert process.wait(60) == 1
    assert f"cannot listen on 127.0.0.1:{port}" in (fresh.folder / "log").read_text()


def test_manage_uses_the_running_server(shared: Server, facts: dict[str, Any]) -> None:
    made = shared.manage("create_key", "--tenant", "demo", "--team", "more", "--scopes", "query", "--json")
    assert made.returncode == 0, made.stderr
    key = json.loads(made.stdout)["key"]
    assert _status(f"{facts['base_url']}/v1/stats", Authorization=f"Bearer {key}") == 200


def test_manage_gives_the_commands_own_status(shared: Server, facts: dict[str, Any]) -> None:
    assert shared.manage("create_tenant", "demo", "--json").returncode not in (0, None)
    assert shared.manage("no_such_command").returncode != 0


def test_without_a_credential_the_gateway_says_what_is_missing(facts: dict[str, Any]) -> None:
    body = json.dumps({"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "hello"}]})
    headers = {"x-api-key": facts["team_key"], "content-type": "application/json"}
    request = urllib.request.Request(f"{facts['base_url']}/v1/messages", body.encode(), headers)
    with pytest.raises(urllib.error.HTTPError) as refused:
        urllib.request.urlopen(request, timeout=10)
    with refused.value as answer:
        assert answer.code == 401
        assert b"ANTHROPIC_API_KEY" in answer.read()


@pytest.mark.parametrize("name", ["web", "worker", "database"])
def test_what_is_killed_comes_back(shared: Server, facts: dict[str, Any], name: str) -> None:
    mark = {"web": b"uvicorn", "worker": b"manage.py\0worker", "database": os.fsencode(shared.data / "postgres")}[name]
    children = Path(f"/proc/{shared.processes[0].pid}/task/{shared.processes[0].pid}/children")

    def current() -> list[int]:
        return [pid for pid in map(int, children.read_text().split()) if mark in command_line(pid)]

    (before,) = until(current)
    os.kill(before, signal.SIGKILL)

    assert until(lambda: current() not in ([], [before]), seconds=60)
    assert until(lambda: _answers(facts), seconds=60)


def _answers(facts: dict[str, Any]) -> bool:
    try:
        return _status(f"{facts['base_url']}/readyz") == 200
    except OSError:
        return False


def test_a_restart_finds_everything_and_term_leaves_nothing(fresh: Server) -> None:
    first = fresh.up("--no-demo")
    assert fresh.stop() == ""
    assert fresh.left_over() == []
    second = fresh.up("--no-demo")
    assert {**second, "base_url": ""} == {**first, "base_url": ""}
    assert _status(f"{second['base_url']}/v1/stats", Authorization=f"Bearer {first['team_key']}") == 200
    fresh.stop()
    assert fresh.left_over() == []
    alone = fresh.manage("create_tenant", "later", "--json")  # with a server of its own
    assert json.loads(alone.stdout)["tenant"] == "later", alone.stderr
    assert fresh.left_over() == []


def test_kill_9_of_the_supervisor_leaves_nothing(fresh: Server) -> None:
    fresh.up("--no-demo")
    fresh.processes[0].kill()
    until(lambda: not fresh.left_over(), seconds=60)
    assert fresh.up("--no-demo")["ready"] is True


def test_the_demo_corpus_answers_through_the_stand_in(fresh: Server) -> None:
    facts = fresh.up("--demo-upstream")
    question = "How does the supervisor of kbplatform stop the embedded PostgreSQL?"
    body = {"model": "claude-sonnet-4-5", "max_tokens": 99, "messages": [{"role": "user", "content": question}]}
    headers = {"x-api-key": facts["team_key"], "content-type": "application/json"}
    request = urllib.request.Request(f"{facts['base_url']}/v1/messages", json.dumps(body).encode(), headers)
    with urllib.request.urlopen(request, timeout=30) as answer:
        assert answer.headers["X-Cache"] in ("KNOWLEDGE-RAG", "MISS")
        assert json.load(answer)["role"] == "assistant"
    found = fresh.manage("query", "embedded PostgreSQL", "--tenant", "demo", "--json")
    assert json.loads(found.stdout)["hits"], found.stderr


def test_a_misspelt_setting_stops_the_start(fresh: Server) -> None:
    process = fresh.begin("--no-demo", KB_EMBEDING_MODEL="x")
    with _reader(process) as reader:
        assert reader.read() == ""
    assert process.wait(60) == 1
    log = (fresh.folder / "log").read_text()
    assert "kb: KB_EMBEDING_MODEL is not a setting" in log
    assert "Traceback" not in log
    assert fresh.left_over() == []


def test_half_an_external_database_is_refused(fresh: Server) -> None:
    process = fresh.begin("--no-demo", DATABASE_URL="postgresql://kb_app:x@127.0.0.1:1/x")
    with _reader(process) as reader:
        assert reader.read() == ""
    assert process.wait(60) == 1
    assert "KB_OWNER_DATABASE_URL, KB_STAFF_DATABASE_URL not" in (fresh.folder / "log").read_text()


# --- the command line itself


def test_help_needs_no_environment(tmp_path: Path) -> None:
    environ = _environment(tmp_path, KB_VENV=str(tmp_path / "none"))
    for arguments in (["--help"], ["up", "--help"], ["manage", "--help"], ["test", "--help"]):
        shown = subprocess.run([KB, *arguments], env=environ, cwd=tmp_path, capture_output=True, text=True)
        assert shown.returncode == 0
        assert "usage: kb" in shown.stdout


def test_dashes_after_test_and_command_are_theirs() -> None:
    assert parse(["test", "-q", "--lf"]).arguments == ["-q", "--lf"]
    parsed = parse(["manage", "--data", "d", "ingest", "--tenant", "demo", "--data", "x"])
    assert parsed.data == Path("d")
    assert parsed.arguments == ["ingest", "--tenant", "demo", "--data", "x"]


@pytest.mark.parametrize("port", ["abc", "-1", "65536", "8e3", "٣x"])
def test_a_port_that_is_none_is_refused_in_words(port: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        parse(["up", f"--port={port}"])
    assert "use a number from 0 to 65535" in capsys.readouterr().err


def test_a_data_directory_that_is_a_file_is_named(tmp_path: Path) -> None:
    taken = tmp_path / "taken"
    taken.touch()
    shown = subprocess.run([KB, "up", "--data", taken], env=_environment(tmp_path), capture_output=True, text=True)
    assert shown.returncode == 1
    assert shown.stderr == f"kb: {taken} is no folder; choose another with --data\n"


def test_a_command_names_a_misspelt_setting(tmp_path: Path) -> None:
    environ = _environment(tmp_path, KB_EMBEDING_MODEL="x")
    command: list[str | Path] = [KB, "manage", "--data", tmp_path / "data", "help"]
    shown = subprocess.run(command, env=environ, capture_output=True, text=True, timeout=60)
    assert shown.returncode == 1
    assert "kb: KB_EMBEDING_MODEL is not a setting" in shown.stderr
    assert "Traceback" not in shown.stderr


def test_port_and_address_follow_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    assert (parse(["up"]).port, parse(["up"]).host) == (8000, "127.0.0.1")
    monkeypatch.setenv("CLAW_RAG_PORT", "9001")
    monkeypatch.setenv("CLAW_RAG_HOST", "::1")
    assert (parse(["up"]).port, parse(["up"]).host) == (9001, "::1")
    monkeypatch.setenv("KB_PORT", "9002")
    assert parse(["up"]).port == 9002
    assert parse(["up", "--port", "9003"]).port == 9003


def _kb_in(project: Path, *arguments: str) -> "subprocess.CompletedProcess[str]":
    """Run a copy of the launcher whose environment records what pip was asked to do and installs nothing."""
    environ = {name: value for name, value in _environment(project).items() if name != "KB_VENV"}
    return subprocess.run([project / "kb", *arguments], env=environ, capture_output=True, text=True)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project folder with an environment whose Python writes down its arguments."""
    (tmp_path / "kbplatform").mkdir()
    for name in ("kb", "kbplatform/__init__.py", "kbplatform/commandline.py"):
        (tmp_path / name).write_bytes((PROJECT / name).read_bytes())
    (tmp_path / "kb").chmod(0o755)
    (tmp_path / "requirements.txt").write_text("a==1\ntorch==2.13.0\nb==2\n")
    (tmp_path / "requirements-serve.lock").write_text("a==1\n")
    (tmp_path / "requirements-dev.txt").write_text("c==3\n")
    python = tmp_path / ".venv" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.write_text(f'#!/bin/sh\necho "$@" >> {tmp_path}/asked\n')
    python.chmod(0o755)
    return tmp_path


def _asked(project: Path) -> list[str]:
    """What the environment's Python was asked since the last time, pip's own options left out."""
    file = project / "asked"
    lines = file.read_text().splitlines() if file.exists() else []
    file.unlink(missing_ok=True)
    quiet = "--disable-pip-version-check --no-input --progress-bar=off "
    return [line.replace(quiet, "").replace(f"{project}/", "") for line in lines]


def test_torch_is_installed_first_and_alone(project: Path) -> None:
    assert _kb_in(project, "manage", "help").returncode == 0
    assert _asked(project) == [
        "-m pip install torch==2.13.0",
        "-m pip install -r requirements.txt",
        "-P -m kbplatform.launch manage help",
    ]


def test_only_changed_requirements_are_installed_again(project: Path) -> None:
    _kb_in(project, "manage", "help")
    _asked(project)
    _kb_in(project, "manage", "help")
    assert _asked(project) == ["-P -m kbplatform.launch manage help"]
    (project / "requirements.txt").write_text("torch==2.14.0\n")
    _kb_in(project, "manage", "help")
    assert _asked(project)[0] == "-m pip install torch==2.14.0"


def test_tests_get_their_own_requirements_too(project: Path) -> None:
    _kb_in(project, "test", "-q")
    assert _asked(project)[-2:] == ["-m pip install -r requirements-dev.txt", "-m pytest -q"]


def test_no_torch_takes_the_serve_lock_and_manage_keeps_to_it(project: Path) -> None:
    _kb_in(project, "up", "--no-torch")
    assert _asked(project)[:-1] == ["-m pip install -r requirements-serve.lock"]
    _kb_in(project, "manage", "help")
    assert _asked(project) == ["-P -m kbplatform.launch manage help"]


def test_a_failed_installation_is_tried_again(project: Path) -> None:
    python = project / ".venv" / "bin" / "python"
    working = python.read_text()
    python.write_text("#!/bin/sh\nexit 1\n")
    failed = _kb_in(project, "manage", "help")
    assert failed.returncode == 1
    assert "torch could not be installed" in failed.stderr
    python.write_text(working)
    _kb_in(project, "manage", "help")
    assert len(_asked(project)) == 3
