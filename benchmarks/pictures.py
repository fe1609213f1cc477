"""The pictures of docs/images, made again from the real commands: `python -m benchmarks.pictures`.

Screenshots of the service need Playwright and a Chromium; the first page of a report the extra `report`,
pypdfium2 and Pango; both a font for Chinese (fonts-wqy-microhei)."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pypdfium2
from playwright.sync_api import sync_playwright

from benchmarks.served import Served

FOLDER = Path(__file__).parents[1] / "docs" / "images"
QUESTION = "/?task=inference&model=googlenet&target_throughput=500"
SERVING = "/?task=generation&model=meta-llama/Llama-3.1-8B&users=8"
SHOTS: dict[str, tuple[str, dict[str, Any]]] = {
    "page.png": (QUESTION, {"locale": "en-GB"}),
    "page.zh-CN.png": (QUESTION, {"locale": "zh-CN", "color_scheme": "dark"}),
    "language.png": (SERVING, {"locale": "en-GB"}),
}
SIZE = {"width": 1280, "height": 800}
REPORTS = {"report.png": "en", "report.zh-CN.png": "zh-CN"}
REPORT = "advisor report --task inference --model googlenet --target-throughput 500 --date 2026-11-22"
# 96 dots an inch: text of 8 points can be read.
_SCALE = 96 / 72
_COLOURS = 256


def main() -> None:
    """Write them all."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    draw_screenshots()
    for name, language in REPORTS.items():
        first_page(language).quantize(_COLOURS).save(FOLDER / name, optimize=True)
    for name in (*SHOTS, *REPORTS):
        print(f"{name}: {(FOLDER / name).stat().st_size / 1000:.0f} kB")


def draw_screenshots() -> None:
    """The page of a service of our own, as a browser shows it."""
    path = shutil.which("chromium") or shutil.which("google-chrome")
    if path is None:
        sys.exit("no Chromium here: apt-get install chromium fonts-wqy-microhei")
    with Served() as service, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox", "--disable-quic"])
        for name, (address, look) in SHOTS.items():
            page = browser.new_context(viewport=SIZE, **look).new_page()
            page.goto(f"http://127.0.0.1:{service.port}{address}", wait_until="networkidle")
            page.screenshot(path=FOLDER / name)
        browser.close()


def first_page(language: str) -> Any:
    """A Pillow image of the first page of that report."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "report.pdf"
        words = [*REPORT.split(), "--language", language, "--out", str(out)]
        subprocess.run([sys.executable, "-m", *words], check=True)
        with pypdfium2.PdfDocument(out) as document:
            return document[0].render(scale=_SCALE).to_pil().convert("RGB")


if __name__ == "__main__":
    main()
