"""A real browser for tests of pages, and what it must never report."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import pytest
from django.test import Client
from playwright.sync_api import Browser, Page, sync_playwright

from tenants.models import User

_NAMES = ("chromium", "chromium-browser", "google-chrome")
# Without these a browser asks the internet for updates at every start.
_QUIET = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


def chromium() -> str:
    """Return the path of a Chromium, or skip the test; fail it where KB_REQUIRE_BROWSER=1 asks for one."""
    found = next((path for name in _NAMES if (path := shutil.which(name))), None)
    if found is None and os.environ.get("KB_REQUIRE_BROWSER") == "1":
        pytest.fail("KB_REQUIRE_BROWSER=1, and no Chromium is installed")
    if found is None:
        pytest.skip("no Chromium is installed (apt-get install chromium)")
    return found


@contextmanager
def browsing() -> Iterator[Browser]:
    """Run a browser with a fresh profile."""
    path = chromium()
    # Playwright's loop lives in the thread of the tests, which read the database between two clicks.
    os.environ["DJANGO_ALLOW_ASYNC_UNSAFE"] = "1"
    with tempfile.TemporaryDirectory() as home, sync_playwright() as playwright:
        environment: dict[str, str | float | bool] = {
            **os.environ,
            "HOME": home,
            "XDG_CONFIG_HOME": home,
            "XDG_CACHE_HOME": home,
        }
        browser = playwright.chromium.launch(executable_path=path, args=[*_QUIET], env=environment)
        yield browser
        browser.close()
    del os.environ["DJANGO_ALLOW_ASYNC_UNSAFE"]


@dataclass
class Complaints:
    """What a page's console reported: errors, refusals of the content security policy, failed requests."""

    said: list[str] = field(default_factory=list)

    def listen(self, page: Page) -> None:
        """Collect from now on."""
        page.on("console", lambda message: self.said.append(message.text) if message.type == "error" else None)
        page.on("pageerror", lambda error: self.said.append(str(error)))
        page.on("requestfailed", lambda request: self.said.append(f"failed: {request.url}"))
        page.on(
            "response",
            lambda answer: self.said.append(f"{answer.status} {answer.url}") if answer.status >= 400 else None,
        )


def enter(page: Page, base: str, user: User) -> None:
    """Sign somebody in without the form: a password takes a while to check."""
    client = Client()
    client.force_login(user)
    session = {"name": "sessionid", "value": client.cookies["sessionid"].value, "url": base}
    page.context.add_cookies([session])  # type: ignore[list-item]


def sign_in(page: Page, base: str, username: str) -> None:
    """Sign in on the admin's page, as tests.make makes people."""
    page.goto(f"{base}/admin/login/?next=/kb/")
    page.get_by_label("Username").fill(username)
    page.get_by_label("Password").fill("a long password")
    page.get_by_role("button", name="Log in").click()
    page.wait_for_url("**/kb/**")
