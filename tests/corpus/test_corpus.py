"""The corpus: what a build answers is what the frozen build answered."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.corpus.__main__ import ANSWERS, UNEXPLAINED, differences_by_reason, read


@pytest.mark.slow
def test_answers_are_those_of_the_frozen_build(tmp_path):
    """Of every ninth question and refusal; `python -m tests.corpus` asks all."""
    new = tmp_path / "new.jsonl.gz"
    subprocess.run([sys.executable, "-m", "tests.corpus", "make", "--every", "9", new], check=True)
    left = differences_by_reason(ANSWERS, new).get(UNEXPLAINED, [])
    assert len(read(new)) >= 80
    assert not left, left[:3]
