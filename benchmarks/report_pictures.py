"""The pictures of docs/how-to/reports.md, made again: `python -m benchmarks.report_pictures`.

Asks the real command for a PDF on the README's question, and draws its first page. Needs the extra
`report`, pypdfium2, Pango, and a font for Chinese (fonts-wqy-microhei).
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parents[1] / "docs" / "images"
QUESTION = ("--task", "inference", "--model", "googlenet", "--target-throughput", "500")
DATE = "2026-11-22"
PICTURES = {"report.png": "en", "report.zh-CN.png": "zh-CN"}
# 96 dots an inch: text of 8 points can be read.
_SCALE = 96 / 72
_COLOURS = 256


def main() -> None:
    """Write them all."""
    for name, language in PICTURES.items():
        page = first_page(language)
        page.quantize(_COLOURS).save(FOLDER / name, optimize=True)
        print(f"{name}: {(FOLDER / name).stat().st_size / 1000:.0f} kB")


def first_page(language: str) -> Any:
    """A Pillow image of the first page of that report."""
    import pypdfium2

    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "report.pdf"
        command = [
            sys.executable,
            "-m",
            "advisor",
            "report",
            *QUESTION,
            "--date",
            DATE,
            "--language",
            language,
            "--out",
            str(out),
        ]
        subprocess.run(command, check=True)
        with pypdfium2.PdfDocument(out) as document:
            return document[0].render(scale=_SCALE).to_pil().convert("RGB")


if __name__ == "__main__":
    main()
