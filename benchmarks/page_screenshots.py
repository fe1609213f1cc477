"""The screenshots of docs/images, made again: `python -m benchmarks.page_screenshots`.

Needs Playwright and a Chromium, with a font for Chinese. Starts the service on a free port, and
ends it.
"""

from __future__ import annotations

import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parents[1] / "docs" / "images"
QUESTION = "/?task=inference&model=googlenet&target_throughput=500"
SHOTS: dict[str, tuple[str, dict[str, Any]]] = {
    "page.png": (QUESTION, {"locale": "en-GB"}),
    "page.zh-CN.png": (QUESTION, {"locale": "zh-CN", "color_scheme": "dark"}),
}
SIZE = {"width": 1280, "height": 800}
ARGUMENTS = ["--no-sandbox", "--disable-quic", "--no-first-run"]
_READY_SECONDS = 30


def main() -> None:
    """Write them all."""
    from playwright.sync_api import sync_playwright

    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    if chromium is None:
        sys.exit("no Chromium here: apt-get install chromium fonts-wqy-microhei")
    FOLDER.mkdir(parents=True, exist_ok=True)
    with _served() as url, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=ARGUMENTS)
        for name, (address, look) in SHOTS.items():
            page = browser.new_context(viewport=SIZE, **look).new_page()
            page.goto(url + address, wait_until="networkidle")
            page.screenshot(path=FOLDER / name)
            print(f"{name}: {(FOLDER / name).stat().st_size / 1000:.0f} kB")
        browser.close()


@contextmanager
def _served() -> Iterator[str]:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
    words = [sys.executable, "-m", "advisor.cli.main", "serve", "--port", str(port)]
    with subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as service:
        try:
            _wait(f"http://127.0.0.1:{port}")
            yield f"http://127.0.0.1:{port}"
        finally:
            service.terminate()


def _wait(url: str) -> None:
    last = time.monotonic() + _READY_SECONDS
    while time.monotonic() < last:
        try:
            urllib.request.urlopen(f"{url}/readyz", timeout=2)
            return
        except OSError:
            time.sleep(0.1)
    sys.exit("the service is not ready")


if __name__ == "__main__":
    main()
