"""The corpus: what a build answers is what the frozen build answered."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from tests.corpus.__main__ import ANSWERS, REASONS, differences, read, reason_of


@pytest.mark.slow
def test_answers_are_those_of_the_frozen_build(tmp_path):
    """Of every sixth question and refusal; `python -m tests.corpus` asks all."""
    new = tmp_path / "new.jsonl.gz"
    subprocess.run([sys.executable, "-m", "tests.corpus", "make", "--every", "6", new], check=True)
    reasons = json.loads(REASONS.read_text(encoding="utf-8")) if REASONS.exists() else []
    left = [each for each in differences(read(ANSWERS), read(new)) if reason_of(each[1], reasons) is None]
    assert len(read(new)) >= 120
    assert not left, left[:3]
