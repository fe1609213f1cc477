"""A person who waits for an answer does not wait for torch, ray or pandas."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from advisor.sweeps.formats import measurement_to_dict
from tests.advisor.cli.test_anchors import anchor
from tests.rows import table
from tests.sweeps.test_anchors import a_measurement

HEAVY = {"torch", "mcp", "ray", "boto3", "pandas", "sklearn", "scipy", "sqlalchemy", "rich"}
HEAVY |= {"matplotlib", "jinja2", "weasyprint", "openpyxl"}
WATCHED = """
import json, sys
from advisor.cli.main import run
loaded = {}
for words in map(json.loads, sys.argv[1:]):
    assert run(words) == 0, words
    loaded[" ".join(words)] = sorted(sys.modules)
print(json.dumps(loaded))
"""


def modules_of(*commands):
    """What is loaded after each of some commands that one process runs."""
    command = [sys.executable, "-c", WATCHED, *map(json.dumps, commands)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    return {words: set(seen) for words, seen in json.loads(done.stdout.splitlines()[-1]).items()}


QUESTION = ["--task", "inference", "--model", "googlenet"]


def test_nothing_heavy_is_imported_to_answer():
    helped = ("report", "sweep", "fit", "cloud", "measurements", "schedule", "doctor", "mcp")
    loaded = modules_of(
        ["recommend", *QUESTION, "--target-throughput", "500"],
        ["recommend", *QUESTION, "-o", "json"],
        ["recommend", *QUESTION, "--samples", "5000", "--explain"],
        ["predict", *QUESTION, "--instance", "g5.xlarge"],
        ["report", *QUESTION, "--target-throughput", "500"],
        ["memory", "--model", "resnet50"],
        *(["catalog", "list"], ["cloud", "policy", "reaper"], ["networks"], ["--help"]),
        *([command, "--help"] for command in helped),
    )
    assert {words: HEAVY & seen for words, seen in loaded.items() if HEAVY & seen} == {}


def test_what_asks_aws_is_loaded_only_to_ask():
    (seen,) = modules_of(["recommend", *QUESTION]).values()
    live = ("live", "refresh", "import", "provider", "believed")
    rooms = ("advisor.answers", "advisor.catalog", "infra")  # others hold records alone
    assert not [item for item in seen if item.startswith(rooms) and any(word in item for word in live)]
    assert not any("models.language" in item for item in seen)
    assert not {"logging", "numpy.ma"} & seen  # np.isin brings the last, 10 ms


@pytest.mark.parametrize("lines", [False, True])
def test_an_anchor_needs_nothing_heavy_either(tmp_path, lines):
    location = tmp_path / "anchor"
    location.write_text(json.dumps(measurement_to_dict(a_measurement()) if lines else anchor()))
    question = ("--task", "training", "--model", "my_net", "--anchor", str(location))
    (seen,) = modules_of(["recommend", *question]).values()
    assert not HEAVY & seen


# As where no extra is installed.
LIGHT = """
import sys
from pathlib import Path
from advisor.cli.main import EXTRA_OF, run

class Missing:
    def find_spec(name, *_):
        if name in EXTRA_OF:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Missing)
sys.exit(run(sys.argv[1:]))
"""


@pytest.mark.parametrize(("words", "needed"), table("start_up")["extras"])
def test_a_command_needs_the_extra_that_it_names_or_none(words, needed, tmp_path, monkeypatch):
    monkeypatch.setenv("ADVISOR_DATABASE_URL", f"sqlite:///{tmp_path}/store.sqlite")
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).resolve().parents[3]))
    (tmp_path / "net.py").write_text("def build():\n    pass\n")
    command = [sys.executable, "-c", LIGHT, *words.split()]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
    assert (done.returncode != 0) == (needed is not None), done.stderr
    assert needed is None or needed in done.stderr
