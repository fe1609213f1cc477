"""Chromium before a real service; skipped with the reason where there is no Chromium."""

import os
import shutil

import pytest

from benchmarks.served import Served

_ARGUMENTS = (
    "--no-sandbox",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
_NAMES = ("chromium", "chromium-browser", "google-chrome")
DESK = {"width": 1280, "height": 900}
# Before tests have homes of their own: Chromium finds its fonts in the user's.
_HOME = os.environ.get("HOME", "/root")
# What Chromium says of every answer that is not 2xx, or does not come: tests of both expect it.
_REFUSED = "Failed to load resource:"


def _chromium():
    return next((path for name in _NAMES if (path := shutil.which(name))), None)


@pytest.fixture(scope="module")
def browser():
    """One a file: Playwright's event loop in a process disturbs what later tests fork from it."""
    playwright = pytest.importorskip("playwright.sync_api", reason="Playwright is not installed")
    path = _chromium()
    if path is None:
        pytest.skip("no Chromium here: apt-get install chromium")
    with playwright.sync_playwright() as started:
        launched = started.chromium.launch(
            executable_path=path, args=list(_ARGUMENTS), env={**os.environ, "HOME": _HOME}
        )
        yield launched
        launched.close()


@pytest.fixture(scope="session")
def service(tmp_path_factory):
    """One without keys, for all tests."""
    lock = {"ADVISOR_SWEEP_LOCK": os.environ["ADVISOR_SWEEP_LOCK"]}
    with Served(folder=tmp_path_factory.mktemp("served"), variables=lock) as served:
        yield served


class Watched:
    """A page whose every console line and request is looked at."""

    def __init__(self, context, url):
        self.url, self.complaints, self.strangers = url, [], []
        self.page = context.new_page()
        self.page.set_default_timeout(15_000)
        self.page.on("console", self._note)
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("request", self._follow)

    def open(self, address):
        self.page.goto(self.url + address)
        return self.page

    def _note(self, line):
        if line.type in ("error", "warning") and not line.text.startswith(_REFUSED):
            self.complaints.append(line.text)

    def _follow(self, request):
        if not request.url.startswith((self.url, "data:")):
            self.strangers.append(request.url)


@pytest.fixture
def visit(browser, service):
    """Opens an address in a fresh context, of which nothing was complained and nobody else was asked."""
    opened = []

    def start(address, served=service, **options):
        context = browser.new_context(**{"locale": "en-GB", "viewport": DESK, **options})
        watched = Watched(context, f"http://127.0.0.1:{served.port}")
        opened.append((context, watched))
        return watched.open(address)

    yield start
    for context, watched in opened:
        context.close()
        assert watched.complaints == []
        assert watched.strangers == []


@pytest.fixture
def assert_accessible():
    """axe finds nothing on a page."""
    from axe_playwright_python.sync_playwright import Axe

    def check(page):
        result = Axe().run(page)
        assert result.violations_count == 0, result.generate_report()

    return check
