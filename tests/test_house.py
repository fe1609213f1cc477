"""The house keeps its size: files and frames of an answer, lines by room, bytes of the docs.

Each ceiling is what there is today, rounded up; lower it with the code. The aims stand in
docs/internals/architecture.md."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
# Lines of Python by room; `infra/build`, which the wheel leaves out, has a ceiling of its own.
LINES = {"advisor": 57_640, "models": 16_140, "sweeps": 15_920, "infra": 4_320, "infra/build": 16_250}
FILES = 531
DOCS_KILOBYTES, WORDS_OF_A_PAGE = 200, 1_500
PAGES = sorted((ROOT / "docs").rglob("*.md"))
RIDDLES = re.compile(r"\b(?:told|asked|stands?(?!-in)|its own|at hand|since deleted)\b", re.IGNORECASE)
FILES_OF_AN_ANSWER, FRAMES_TO_A_PREDICTION = 71, 11
# Counts every function of the product that runs for one answer, its modules' bodies left out.
TRACED = """
import contextlib, io, json, sys
from advisor.cli.main import run
# An environment may lie inside the checkout: its packages are not ours.
rooms = tuple(f"{sys.argv[1]}/{room}/" for room in ("advisor", "models", "sweeps", "infra"))
files, depths = set(), []
def count(frame, event, _):
    file = frame.f_code.co_filename
    if event != "call" or not file.startswith(rooms) or not frame.f_code.co_flags & 2:
        return
    if frame.f_code.co_name.startswith("<"):
        return
    files.add(file)
    if file.endswith("models/performance/model.py") and frame.f_code.co_name.startswith("predict"):
        depth = 0
        while frame is not None:
            depth += frame.f_code.co_filename.startswith(rooms)
            if frame.f_code.co_filename.endswith("cli/recommend.py"):
                break
            frame = frame.f_back
        depths.append(depth)
with contextlib.redirect_stdout(io.StringIO()):
    sys.setprofile(count)
    run(["recommend", "--task", "inference", "--model", "googlenet", "--target-throughput", "500",
         "-o", "json"])
    sys.setprofile(None)
print(json.dumps({"files": len(files), "frames": depths[0]}))
"""


def python_files(room: str) -> list[Path]:
    """Those of the folder itself: `advisor` has links to the other rooms, and the builders are a room."""
    apart = {ROOT / "advisor" / other for other in LINES} | {ROOT / "infra/build"} - {ROOT / room}
    return [file for file in (ROOT / room).rglob("*.py") if apart.isdisjoint(file.parents)]


@pytest.mark.parametrize("room", LINES)
def test_a_room_grows_no_larger_than_it_is(room: str) -> None:
    assert sum(file.read_bytes().count(b"\n") for file in python_files(room)) <= LINES[room]


def test_there_are_no_more_files() -> None:
    assert sum(len(python_files(room)) for room in LINES) <= FILES


def test_the_docs_grow_no_longer() -> None:
    assert sum(page.stat().st_size for page in PAGES) <= DOCS_KILOBYTES * 1000


@pytest.mark.parametrize("page", [*PAGES, *ROOT.glob("*.md")], ids=lambda page: page.name)
def test_a_page_is_short_and_in_plain_words(page: Path) -> None:
    """A native-speaking reader stops at each of these words, as the project once used them."""
    text = page.read_text(encoding="utf-8")
    assert sum(any(map(str.isalnum, word)) for word in text.split()) <= WORDS_OF_A_PAGE
    prose = re.sub(r"```.*?```", "", text, flags=re.DOTALL)  # what commands print is held elsewhere
    assert RIDDLES.findall(prose) == []


def test_an_answer_runs_through_no_more_files_and_frames() -> None:
    """From the command to the first prediction, in a process of its own."""
    done = subprocess.run(
        [sys.executable, "-c", TRACED, str(ROOT)], capture_output=True, text=True, check=True, cwd=ROOT
    )
    traced = json.loads(done.stdout)
    assert 0 < traced["files"] <= FILES_OF_AN_ANSWER
    assert 0 < traced["frames"] <= FRAMES_TO_A_PREDICTION
