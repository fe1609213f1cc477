"""What cannot be asked is refused in one line with the way out, before anything is done.

Each line of tests/data/refusals.jsonl is a refusal: the words of the command, its exit code and what
is said, in order; what it is about, where the words do not say it; the `files` that it names; `aws`
where AWS is to be there; and what is `never` said. The number of a test is that of its line.
"""

import json
import re
import shlex
from pathlib import Path

import pytest

from advisor.sweeps.datasets.making import write_samples
from tests.advisor.cli.test_sweep_cloud import account

__all__ = ["account"]
TESTS = Path(__file__).parents[2]
REFUSALS = [json.loads(line) for line in (TESTS / "data/refusals.jsonl").read_text().splitlines()]
PLAN = "workloads:\n- {task: inference, model: googlenet, target_throughput: 500}\n"
FILES = {
    "team.yaml": PLAN,
    "plan.yaml": PLAN,
    "bad.yaml": "workloads:\n- {task: inference, model: no-such-net}\n",
    "empty.json": "{}",
    "runs.csv": "nodes,usd_per_hour,throughput\n1,0.1,50\n2,0.2,95\n4,0.4,180\n",
}


@pytest.fixture
def folder(refusal, tmp_path, monkeypatch):
    """The files and photographs that some of the commands name."""
    location = tmp_path / "here"
    location.mkdir()
    if "photos" in refusal["words"]:
        (location / "photos").mkdir()
        write_samples(location / "photos", range(6), seed=0)
    for name, text in (FILES | refusal.get("files", {})).items():
        (location / name).write_text(text)
    monkeypatch.chdir(location)
    return location


@pytest.mark.parametrize("refusal", REFUSALS, ids=range(1, len(REFUSALS) + 1))
def test_a_refusal_is_one_line_with_the_way_out(ask, folder, refusal, request):
    there = request.getfixturevalue("account") if refusal.get("aws") else None
    before = sorted(folder.rglob("*"))
    code, out, err = ask(*shlex.split(refusal["words"].replace("{root}", str(TESTS.parent))))
    assert (code, err.count("\n")) == (refusal["code"], 1), err
    assert err.startswith("advisor: ")
    said = [refusal["said"]] if isinstance(refusal["said"], str) else refusal["said"]
    assert re.search(".*".join(map(re.escape, said)), err), err
    assert "\x1b" not in err
    assert refusal.get("never", "\x1b") not in err
    assert out == "" or code == 3
    assert sorted(folder.rglob("*")) == before
    assert there is None or there.instances() == there.left() == []
