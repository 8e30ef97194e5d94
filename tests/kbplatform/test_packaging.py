"""What is shipped beside the code: pins, the lock, container files, make targets."""

import ast
import importlib.metadata
import re
import shlex
import stat
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml
from django.core.management import get_commands
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from kbplatform import environment
from kbplatform.commandline import PROJECT

HEAVY = {"torch", "transformers", "sentence-transformers", "triton", "scikit-learn", "scipy", "onnx"}


def _pins(name: str) -> dict[str, str]:
    """Version by package; a line that is no exact pin fails the test that reads it."""
    found: dict[str, str] = {}
    for line in (PROJECT / name).read_text().splitlines():
        text = line.split("#")[0].strip().removesuffix("\\").strip()
        if not text or text.startswith("--hash=sha256:"):
            continue
        pinned = re.fullmatch(r"([A-Za-z0-9._-]+)(?:\[[a-z,]+\])?==([A-Za-z0-9.!]+)", text)
        assert pinned, f"{name}: {line} is no exact pin"
        found[canonicalize_name(pinned[1])] = pinned[2]
    return found


def _direct(name: str) -> list[Requirement]:
    lines = (line.split("#")[0].strip() for line in (PROJECT / name).read_text().splitlines())
    return [Requirement(line) for line in lines if line]


def test_it_works() -> None:
    pins = _pins("requirements.txt")
    assert pins["torch"] == "2.13.0"
    assert pins["sentence-transformers"] == "6.2.0"
    assert pins["django"].startswith("5.2.")


def test_the_environment_is_what_the_pins_say() -> None:
    for name in ("requirements.txt", "requirements-dev.txt"):
        for package, version in _pins(name).items():
            assert importlib.metadata.version(package).split("+")[0] == version, package


def test_everything_that_a_pinned_package_needs_is_pinned() -> None:
    pins = _pins("requirements.txt") | _pins("requirements-dev.txt")
    for package in pins:
        for text in importlib.metadata.requires(package) or []:
            needed = Requirement(text)
            if package == "torch" or (needed.marker and not needed.marker.evaluate({"extra": ""})):
                continue  # torch's own libraries differ by build
            assert canonicalize_name(needed.name) in pins, f"{package} needs {needed}"


def test_the_serve_lock_names_nothing_heavy() -> None:
    lock = _pins("requirements-serve.lock")
    assert not HEAVY & set(lock)
    assert not [name for name in lock if name.startswith("nvidia")]


def test_the_serve_lock_has_the_versions_of_the_requirements() -> None:
    pins = _pins("requirements.txt")
    assert {name: pins.get(name) for name in _pins("requirements-serve.lock")} == _pins("requirements-serve.lock")


def test_the_serve_lock_is_hashed_throughout() -> None:
    text = (PROJECT / "requirements-serve.lock").read_text()
    for block in re.split(r"\n(?=[A-Za-z0-9])", text.strip()):
        assert "--hash=sha256:" in block, block.splitlines()[0]


def test_the_serve_lock_covers_what_it_was_asked_for() -> None:
    lock = _pins("requirements-serve.lock")
    assert all(canonicalize_name(wanted.name) in lock for wanted in _direct("requirements-serve.in"))


@pytest.mark.parametrize("name", ["requirements.txt", "requirements-dev.txt", "requirements-serve.lock"])
def test_no_requirement_names_a_place(name: str) -> None:
    text = (PROJECT / name).read_text()
    assert not re.search(r"://|--(extra-)?index-url|--find-links|file:|^-[ef]|@ ", text, re.MULTILINE)


def _imports(file: Path) -> set[str]:
    found: set[str] = set()
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found.add(node.module.split(".")[0])
    return found


def _unpinned(folders: list[str], pins: dict[str, str]) -> set[str]:
    """Foreign modules that Python files in the folders import and none of the pinned packages brings."""
    providers = importlib.metadata.packages_distributions()
    names = set().union(*(_imports(file) for folder in folders for file in (PROJECT / folder).rglob("*.py")))
    foreign = {name for name in names if name in providers and not (PROJECT / name).exists()}
    return {name for name in foreign if not {canonicalize_name(found) for found in providers[name]} & set(pins)}


def test_the_product_imports_nothing_unpinned() -> None:
    assert not _unpinned(["kbplatform", "proxy", "knowledge", "tenants"], _pins("requirements.txt"))


def test_tests_and_benchmarks_import_nothing_unpinned() -> None:
    pins = _pins("requirements.txt") | _pins("requirements-dev.txt")
    assert not _unpinned(["tests", "bench"], pins)


def test_the_launcher_needs_the_standard_library_only() -> None:
    allowed = sys.stdlib_module_names | {"kbplatform"}
    assert _imports(PROJECT / "kb") <= allowed
    assert _imports(PROJECT / "kbplatform" / "commandline.py") <= sys.stdlib_module_names
    assert not _imports(PROJECT / "kbplatform" / "__init__.py")


@pytest.mark.parametrize("name", ["kb", ".ci/run", "manage.py"])
def test_programs_are_executable(name: str) -> None:
    listed = subprocess.run(
        ["git", "ls-files", "-s", name], cwd=PROJECT, capture_output=True, text=True, check=False
    ).stdout
    assert listed.startswith("100755") if listed else (PROJECT / name).stat().st_mode & stat.S_IXUSR


def test_the_ci_script_is_valid_and_ends_with_the_tests() -> None:
    script = PROJECT / ".ci" / "run"
    subprocess.run(["bash", "-n", script], check=True)
    lines = script.read_text().strip().splitlines()
    assert lines[-1] == "KB_REQUIRE_BROWSER=1 ./kb test -q"
    assert any(line == "make lint" for line in lines)


# --- containers (there is no engine here to build them with: they are read, not run)


def _instructions() -> list[tuple[str, str]]:
    text = (PROJECT / "Dockerfile").read_text().replace("\\\n", " ")
    lines = (line.strip() for line in text.splitlines())
    return [(line.split()[0].upper(), line.partition(" ")[2].strip()) for line in lines if line and line[0] != "#"]


def test_the_image_copies_only_what_exists() -> None:
    kept = {line[1:] for line in (PROJECT / ".dockerignore").read_text().splitlines() if line.startswith("!")}
    assert all((PROJECT / name).exists() for name in kept)
    sources = [value.split()[:-1] for name, value in _instructions() if name == "COPY" and "--from" not in value]
    assert {source for group in sources for source in group} - {"."} <= kept


def test_stages_of_the_image_exist() -> None:
    stages = {value.split(" AS ")[1] for name, value in _instructions() if name == "FROM" and " AS " in value}
    used = {re.findall(r"--from=(\S+)", value)[0] for name, value in _instructions() if "--from" in value}
    assert used <= stages


def test_the_image_serves_as_nobody_special_without_torch() -> None:
    last = _instructions()[max(i for i, (name, _) in enumerate(_instructions()) if name == "FROM") :]
    assert dict(last)["USER"] == "10001:10001"
    assert dict(last)["HEALTHCHECK"]
    assert not [value for name, value in last if name == "RUN" and "pip" in value]
    hashed = [value for name, value in _instructions() if "requirements-serve.lock" in value and name == "RUN"]
    assert "--require-hashes" in hashed[0]


def test_compose_runs_commands_that_exist() -> None:
    services = _compose()["services"]
    assert set(services) == {"database", "migrate", "web", "worker"}
    script = "\n".join(str(part) for part in services["migrate"]["command"])
    commands = [*re.findall(r"manage\.py (\w+)", script), services["worker"]["command"][2]]
    assert commands == ["create_roles", "migrate", "worker"]
    assert set(commands) <= set(get_commands())


def test_compose_waits_in_order() -> None:
    services = _compose()["services"]
    assert services["migrate"]["depends_on"]["database"]["condition"] == "service_healthy"
    for name in ("web", "worker"):
        assert services[name]["depends_on"]["migrate"]["condition"] == "service_completed_successfully"


def test_compose_knows_our_settings() -> None:
    known = {setting.name for setting in environment.SETTINGS}
    assert set(_compose()["x-app"]["environment"]) <= known


def test_what_compose_asks_for_is_in_the_example() -> None:
    asked = set(re.findall(r"(?<!\$)\$\{(\w+)", (PROJECT / "compose.yaml").read_text()))
    given = {line.partition("=")[0] for line in (PROJECT / ".env.example").read_text().splitlines() if "=" in line}
    assert asked <= given


def test_only_loopback_is_published() -> None:
    ports = [port for service in _compose()["services"].values() for port in service.get("ports", [])]
    assert ports == ["127.0.0.1:8000:8000"]


def _compose() -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.safe_load((PROJECT / "compose.yaml").read_text())
    return loaded


# --- make


def test_make_targets_run_tools_of_the_environment() -> None:
    listed = subprocess.run(
        ["make", "--dry-run", "lint", "lock", "bench"], cwd=PROJECT, capture_output=True, text=True, check=True
    )
    programs = {shlex.split(line)[0] for line in listed.stdout.replace("\\\n", " ").splitlines()}
    assert {Path(program).parent for program in programs} == {Path(".venv/bin")}


def test_the_project_asks_for_a_python_that_the_launcher_accepts() -> None:
    project = tomllib.loads((PROJECT / "pyproject.toml").read_text())["project"]
    assert project["requires-python"] == ">=3.11"
    assert "sys.version_info < (3, 11)" in (PROJECT / "kb").read_text()
