"""What README and docs name exists, and what exists is named there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from django.core.management import get_commands

from kbplatform.environment import LAUNCHER_NAMES, SETTINGS

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
OUR_APPS = {"kbplatform", "proxy", "knowledge", "tenants"}


def text_of_all() -> str:
    return "\n".join(page.read_text(encoding="utf-8") for page in PAGES)


def our_commands() -> set[str]:
    return {name for name, app in get_commands().items() if str(app) in OUR_APPS}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_link_leads_somewhere(page: Path) -> None:
    links = re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8"))
    assert [link for link in links if not (page.parent / link).exists()] == []


def test_every_path_of_the_map_exists() -> None:
    rows = [line for line in (ROOT / "README.md").read_text(encoding="utf-8").splitlines() if line.startswith("|")]
    paths = re.findall(r"`([a-z_]+(?:/[a-z_.]*)?[a-z_./]*)`", "\n".join(rows))
    assert paths
    assert [path for path in paths if "/" in path and not (ROOT / path).exists()] == []


def test_every_command_that_is_named_exists() -> None:
    named = set(re.findall(r"(?:kb manage|manage\.py)(?: --data \S+)? ([a-z_]+)", text_of_all()))
    assert named - set(get_commands()) == set()


def test_every_command_of_ours_is_named() -> None:
    text = text_of_all()
    assert sorted(name for name in our_commands() if not re.search(rf"\b{name}\b", text)) == []


def test_every_setting_that_is_named_exists() -> None:
    known = {setting.name for setting in SETTINGS} | LAUNCHER_NAMES
    named = set(re.findall(r"\bKB_[A-Z][A-Z_]*[A-Z]\b", text_of_all()))
    assert sorted(name for name in named if name not in known and name.removesuffix("_FILE") not in known) == []


def test_every_page_of_docs_is_linked_from_the_readme() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert [page.name for page in PAGES[1:] if f"docs/{page.name}" not in readme] == []


def test_no_text_of_ours_names_a_place_of_a_developers_machine() -> None:
    assert re.findall(r"(?<![\w.])/(?:work|home|root|Users)/\S*", text_of_all()) == []


def test_every_package_that_a_server_installs_has_its_reason() -> None:
    lines = (ROOT / "requirements-serve.in").read_text(encoding="utf-8").splitlines()
    names = [re.split(r"[\[=<>~ ]", line)[0].lower() for line in lines if line and not line.startswith("#")]
    reasons = (ROOT / "docs" / "dependencies.md").read_text(encoding="utf-8").lower()
    assert [name for name in names if name not in reasons] == []
