"""Chromium before a real service; skipped with the reason where there is no Chromium."""

import os
import shutil

import pytest

from benchmarks.served import Served

_OFF = ("quic", "background-networking", "component-update", "sync")
_ARGUMENTS = ["--no-sandbox", "--no-first-run", *(f"--disable-{name}" for name in _OFF)]
_NAMES = ("chromium", "chromium-browser", "google-chrome")
DESK = {"width": 1280, "height": 900}
# Before tests have homes of their own: Chromium finds its fonts in the user's.
_HOME = os.environ.get("HOME", "/root")
# What Chromium says of every answer that is not 2xx, or does not come: tests of both expect it.
_REFUSED = "Failed to load resource:"


@pytest.fixture(scope="module")
def browser():
    """One a file: Playwright's event loop in a process disturbs what later tests fork from it."""
    playwright = pytest.importorskip("playwright.sync_api", reason="Playwright is not installed")
    path = next(filter(None, map(shutil.which, _NAMES)), None)
    if path is None:
        pytest.skip("no Chromium here: apt-get install chromium")
    with playwright.sync_playwright() as started:
        environment = {**os.environ, "HOME": _HOME}
        launched = started.chromium.launch(executable_path=path, args=_ARGUMENTS, env=environment)
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
