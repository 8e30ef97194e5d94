"""The upload page in a real browser: a folder goes in, the worker indexes it, the page says what became of it."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from knowledge.models import Page as KnowledgePage
from tenants.facts import TenantFacts
from tenants.models import Role
from tenants.scope import tenant_scope
from tests.e2e.browser import Complaints, browsing, enter, sign_in
from tests.make import make_key, make_member, make_user
from tests.proxy.serving import serving_process

pytestmark = pytest.mark.browser
ROOT = Path(__file__).resolve().parents[2]
PAGES = 60


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """A browser for all tests here."""
    with browsing() as running:
        yield running


@pytest.fixture(scope="module")
def base() -> Iterator[str]:
    """The product behind a real server, with a worker."""
    careful = {"DJANGO_ALLOW_ASYNC_UNSAFE": ""}  # what tests.e2e.browser sets is for the tests alone
    worker = subprocess.Popen([sys.executable, str(ROOT / "manage.py"), "worker"], env={**os.environ, **careful})
    with serving_process(**careful) as address:
        yield address
    worker.send_signal(signal.SIGTERM)
    worker.wait(30)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder of small pages, a binary file that looks like a page, and two things that are never sent."""
    top = tmp_path / "handbook"
    for number in range(PAGES):
        place = top / f"part{number % 3}"
        place.mkdir(parents=True, exist_ok=True)
        (place / f"page{number}.md").write_text(f"# Page {number}\n\nValve {number} opens at {number} bar.\n")
    (top / "scan.md").write_bytes(b"\0\1\2" * 400)
    (top / "node_modules").mkdir()
    (top / "node_modules" / "index.js").write_text("never();")
    (top / "photo.png").write_bytes(b"\x89PNG")
    return top


@pytest.fixture
def page(browser: Browser, base: str, tenant: TenantFacts) -> Iterator[Page]:
    """An editor's signed-in page of the tenant, whose console must stay clean."""
    complaints = Complaints()
    context = browser.new_context()
    opened = context.new_page()
    complaints.listen(opened)
    enter(opened, base, make_member(tenant, role=Role.EDITOR))
    opened.goto(f"{base}/kb/{tenant.slug}/")
    yield opened
    context.close()
    assert complaints.said == []


def paths_of(tenant: TenantFacts) -> set[str]:
    """Return the paths of the tenant's pages."""
    with tenant_scope(tenant):
        return set(KnowledgePage.objects.filter(tenant_id=tenant.id).values_list("path", flat=True))


def test_it_works(page: Page, tenant: TenantFacts, folder: Path) -> None:
    page.get_by_label("or a folder").set_input_files(folder)
    expect(page.get_by_role("status")).to_have_text(f"{PAGES + 1} to send, 2 left out before sending")
    expect(page.get_by_label("Source")).to_have_value("handbook")
    page.get_by_text("Left out before sending", exact=True).click()
    expect(page.get_by_text("folders named node_modules are skipped")).to_be_visible()
    expect(page.get_by_text("files of type .png are not read")).to_be_visible()
    page.get_by_role("button", name="Upload").click()
    job = page.locator("#job")
    expect(job).to_contain_text(f"{PAGES} indexed and 0 unchanged of {PAGES + 1}", timeout=60_000)
    expect(job).to_contain_text(f"{PAGES} pages, 0 visible to visitors", timeout=60_000)
    expect(job).to_contain_text("scan.md")
    expect(job).to_contain_text("binary data: it holds NUL bytes")
    expect(page.locator("#counts")).to_contain_text(re.compile(rf"Pages\s*{PAGES}\b"))
    page.get_by_role("button", name="Make them visible to visitors").click()
    expect(job).to_contain_text(f"{PAGES} pages, {PAGES} visible to visitors")
    expect(page.locator("#counts")).to_contain_text(re.compile(rf"Visible to visitors\s*{PAGES}\b"))
    assert len(paths_of(tenant)) == PAGES
    assert "part0/page0.md" in paths_of(tenant)


def test_the_same_folder_again_is_unchanged(page: Page, folder: Path) -> None:
    for said in (f"{PAGES} indexed and 0 unchanged", f"0 indexed and {PAGES} unchanged"):
        page.get_by_label("or a folder").set_input_files(folder)
        page.get_by_role("button", name="Upload").click()
        expect(page.locator("#job")).to_contain_text(said, timeout=60_000)
        expect(page.locator("#job h2")).to_contain_text("done", timeout=60_000)


def test_the_keyboard_is_enough(page: Page, folder: Path) -> None:
    page.get_by_label("Files", exact=True).set_input_files(folder / "part0" / "page0.md")
    page.get_by_label("Source").focus()
    page.keyboard.press("Tab")
    expect(page.get_by_label("Files", exact=True)).to_be_focused()
    page.keyboard.press("Tab")
    expect(page.get_by_label("or a folder")).to_be_focused()
    page.keyboard.press("Tab")
    expect(page.get_by_role("button", name="Upload")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator("#job")).to_contain_text("1 page, 0 visible to visitors", timeout=60_000)


def test_a_reload_finds_the_job_again(page: Page, folder: Path) -> None:
    page.get_by_label("Files", exact=True).set_input_files(folder / "part0" / "page0.md")
    page.get_by_role("button", name="Upload").click()
    expect(page.locator("#job")).to_be_visible()
    page.reload()
    expect(page.locator("#job")).to_contain_text("1 page, 0 visible to visitors", timeout=60_000)


def test_a_folder_of_which_nothing_is_read_is_explained(page: Page, folder: Path) -> None:
    page.get_by_label("Files", exact=True).set_input_files(folder / "photo.png")
    page.get_by_role("button", name="Upload").click()
    expect(page.get_by_role("status")).to_have_text("Nothing of this can be read: all of it was left out.")


def test_a_plain_form_works_without_scripts(browser: Browser, base: str, tenant: TenantFacts, folder: Path) -> None:
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    sign_in(page, base, make_member(tenant, role=Role.EDITOR).username)
    page.get_by_label("Files", exact=True).set_input_files([folder / "part0" / "page0.md", folder / "scan.md"])
    page.get_by_role("button", name="Upload").click()
    page.wait_for_url("**/jobs/**")
    expect(page.locator("#job")).to_contain_text("Job into “upload”")
    context.close()


@pytest.mark.parametrize(
    "path",
    [
        "/",
        "/admin/",
        "/admin/tenants/tenant/",
        "/admin/tenants/key/",
        "/admin/tenants/key/add/?tenant={slug}",
        "/admin/tenants/membership/add/?tenant={slug}",
        "/admin/tenants/usage/",
        "/admin/knowledge/page/",
        "/admin/knowledge/source/add/?tenant={slug}",
    ],
)
def test_pages_raise_no_complaint_of_the_browser(browser: Browser, base: str, tenant: TenantFacts, path: str) -> None:
    make_key(tenant)
    complaints = Complaints()
    context = browser.new_context()
    page = context.new_page()
    complaints.listen(page)
    enter(page, base, make_user(superuser=True))
    page.goto(base + path.format(slug=tenant.slug))
    page.wait_for_load_state("networkidle")
    context.close()
    assert complaints.said == []


def test_a_key_is_made_and_shown_once(browser: Browser, base: str, tenant: TenantFacts) -> None:
    context = browser.new_context()
    page = context.new_page()
    enter(page, base, make_member(tenant, role=Role.MANAGER))
    page.goto(f"{base}/admin/tenants/key/add/")
    page.get_by_label("Team:").fill("writers")
    page.get_by_role("button", name="Save", exact=True).click()
    expect(page.locator("#id_key")).to_have_value(re.compile(r"^kb_sk_\w{12}_\w{43}$"))
    page.get_by_role("link", name="I have copied it").click()
    expect(page.locator("#id_key")).to_have_count(0)
    context.close()
