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
SERVING = "/language?task=generation&model=meta-llama/Llama-3.1-8B&users=8"
SHOTS: dict[str, tuple[str, dict[str, Any]]] = {
    "page.png": (QUESTION, {"locale": "en-GB"}),
    "page.zh-CN.png": (QUESTION, {"locale": "zh-CN", "color_scheme": "dark"}),
    "language.png": (SERVING, {"locale": "en-GB"}),
}
SIZE = {"width": 1280, "height": 800}
ARGUMENTS = ["--no-sandbox", "--disable-quic", "--no-first-run"]
_READY_SECONDS = 30


def chromium() -> str:
    """Its path."""
    path = shutil.which("chromium") or shutil.which("google-chrome")
    return path or sys.exit("no Chromium here: apt-get install chromium fonts-wqy-microhei")


def main() -> None:
    """Write them all."""
    from playwright.sync_api import sync_playwright

    FOLDER.mkdir(parents=True, exist_ok=True)
    with served() as url, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium(), args=ARGUMENTS)
        for name, (address, look) in SHOTS.items():
            page = browser.new_context(viewport=SIZE, **look).new_page()
            page.goto(url + address, wait_until="networkidle")
            page.screenshot(path=FOLDER / name)
            print(f"{name}: {(FOLDER / name).stat().st_size / 1000:.0f} kB")
        browser.close()


@contextmanager
def served() -> Iterator[str]:
    """The address of a service of our own, ready, until the block ends."""
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
