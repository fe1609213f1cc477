"""One question through the house: `python -m benchmarks.way --json [OPTIONS OF RECOMMEND]`.

Counts, by `sys.setprofile`, the product's files and functions that run for one
`advisor recommend .. -o json`, and the frames from the command to the first prediction.
"""

from __future__ import annotations

import contextlib
import inspect
import io
import json
import sys
from pathlib import Path
from types import FrameType
from typing import Any

ROOT = Path(__file__).parents[1]
QUESTION = ("--task", "inference", "--model", "googlenet", "--target-throughput", "500")
ROOMS = ("advisor", "models", "sweeps", "infra")
COMMAND = "advisor/cli/recommend.py"
PREDICTOR = "models/performance/model.py"


class Trace:
    """What ran: files, functions, and the stack when the predictor was first called."""

    def __init__(self) -> None:
        self.functions: set[tuple[str, str]] = set()
        self.first: list[tuple[str, str]] = []

    def __call__(self, frame: FrameType, event: str, _argument: Any) -> None:
        """A profile function, see `sys.setprofile`."""
        if event != "call":
            return
        place = _place(frame)
        code = frame.f_code
        # Bodies of modules and classes run when they are imported, and are no functions.
        if place is None or not code.co_flags & inspect.CO_NEWLOCALS or code.co_name[0] == "<":
            return
        self.functions.add((place, frame.f_code.co_qualname))
        if place == PREDICTOR and not self.first and _command_below(frame):
            self.first = _stack(frame)


def _place(frame: FrameType) -> str | None:
    """The file inside of the product, as 'advisor/cli/recommend.py'."""
    file = frame.f_code.co_filename
    if not file.startswith(str(ROOT)):
        return None
    place = file[len(str(ROOT)) + 1 :]
    return place if place.startswith(tuple(f"{room}/" for room in ROOMS)) else None


def _stack(frame: FrameType | None) -> list[tuple[str, str]]:
    """The product's frames from the command to this one."""
    frames = []
    while frame is not None:
        place = _place(frame)
        if place is not None:
            frames.append((place, frame.f_code.co_qualname))
        if place == COMMAND and frame.f_code.co_name == "recommend":
            break
        frame = frame.f_back
    return frames[::-1]


def _command_below(frame: FrameType) -> bool:
    stack = _stack(frame)
    return bool(stack) and stack[0][0] == COMMAND


def main() -> None:
    """Trace the question and print what ran."""
    options = [one for one in sys.argv[1:] if one != "--json"]
    from advisor.cli.main import run

    trace = Trace()
    with contextlib.redirect_stdout(io.StringIO()):
        sys.setprofile(trace)
        run(["recommend", *(options or QUESTION), "-o", "json"])
        sys.setprofile(None)
    files = sorted({file for file, _ in trace.functions})
    document = {
        "files": len(files),
        "functions": len(trace.functions),
        "frames_to_first_prediction": len(trace.first),
        "way": [f"{file}:{name}" for file, name in trace.first],
        "lines": {room: _lines(ROOT / room) for room in ROOMS},
    }
    print(json.dumps(document, indent=1))


def _lines(folder: Path) -> int:
    """Lines of Python."""
    return sum(len(file.read_text().splitlines()) for file in folder.rglob("*.py"))


if __name__ == "__main__":
    main()
