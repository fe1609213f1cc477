"""Asks one build every question of a file: `python recording.py QUESTIONS OUT`, in its environment.

Imports nothing beside `advisor`, whose build may be another one than this tree's. A line of OUT is one
question: its words, exit code, stderr, the text and the JSON document of the answer."""

from __future__ import annotations

import contextlib
import io
import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Any


def recorded(words: list[str]) -> dict[str, Any]:
    """What the command prints, as text and as JSON."""
    code, text, stderr = _asked(words)
    answers = {0, 3} >= {code} and words[0] != "--help"
    document = document_of(words) if answers else None
    return {"words": words, "code": code, "stderr": stderr, "text": text, "document": document}


def document_of(words: list[str]) -> Any:
    """What the command prints as JSON; None where it refuses."""
    code, text, _ = _asked([*words, "-o", "json"])
    return json.loads(text) if code in (0, 3) else None


def _asked(words: list[str]) -> tuple[int, str, str]:
    from advisor.cli.main import run

    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = run(words)
    return code, out.getvalue(), err.getvalue()


def main(questions: str, out: str) -> None:
    """Ask all, in an empty folder and without a user's own prices or predictors."""
    lines = Path(questions).read_text(encoding="utf-8").splitlines()
    target = Path(out).absolute()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        os.environ |= {
            "HOME": folder,
            "XDG_DATA_HOME": folder,
            "XDG_CONFIG_HOME": folder,
            "ADVISOR_TODAY": "2026-11-28",
            "COLUMNS": "100",
        }
        with target.open("w", encoding="utf-8") as file:
            for number, line in enumerate(lines, 1):
                file.write(json.dumps(recorded(json.loads(line))) + "\n")
                sys.stderr.write(f"\r{number} of {len(lines)}")
        os.chdir("/")
    sys.stderr.write("\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
