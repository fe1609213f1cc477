"""`advisor verify`: one trial, its verdict as an exit code; a wrong question starts nothing."""

import json
import shlex
from importlib.resources import files
from pathlib import Path

import jsonschema
import pytest

from advisor.cli.main import run
from advisor.domain import Status
from advisor.store.measurements import open_store
from advisor.sweeps.datasets.photographs import write_samples
from tests.sweeps.builders import measurement

SCHEMA = json.loads((files("advisor.render") / "schemas/verification.schema.json").read_text())


@pytest.fixture(autouse=True)
def _alone(monkeypatch, tmp_path):
    """Own store and day."""
    monkeypatch.setenv("ADVISOR_DATABASE_URL", f"sqlite:///{tmp_path}/store.sqlite")
    monkeypatch.setenv("ADVISOR_TODAY", "2026-07-21")


@pytest.fixture
def images(tmp_path):
    folder = tmp_path / "images"
    folder.mkdir()
    write_samples(folder, range(40), seed=0)
    return folder


class Fake:
    """Measures nothing: every step of a trial takes as long as it is told."""

    def __init__(self):
        self.seconds, self.status, self.given = 0.1, Status.OK, []

    def execute(self, trials):
        for one in trials:
            self.given.append(one)
            steps = (self.seconds,) * 60
            yield measurement(trial=one, status=self.status, step_seconds=steps, reason="no such device")

    def close(self):
        pass


@pytest.fixture
def measured(monkeypatch):
    fake = Fake()
    monkeypatch.setattr("advisor.sweeps.executors.process.ProcessExecutor", lambda _measure: fake)
    return fake


def verify(images, target, *more):
    return run(
        [
            *shlex.split("verify --task preprocessing --model googlenet --target-throughput"),
            target,
            "--data",
            str(images),
            *more,
        ]
    )


@pytest.mark.parametrize(
    ("seconds", "status", "code", "word"),
    [(0.1, Status.OK, 0, "pass"), (0.5, Status.OK, 3, "missed"), (0.5, Status.CONTAMINATED, 1, "undecided")],
)
def test_the_verdict_is_the_exit_code(images, measured, capsys, seconds, status, code, word):
    measured.seconds, measured.status = seconds, status
    assert verify(images, "100", "-o", "json") == code
    said = capsys.readouterr()
    document = json.loads(said.out)
    jsonschema.validate(document, SCHEMA)
    assert document["verdict"] == word
    assert "measuring googlenet preprocessing" in said.err


def test_the_machine_is_held_to_the_instance_and_three_runs_are_stored(images, measured, tmp_path):
    out = tmp_path / "run.jsonl"
    assert (
        verify(
            images, *shlex.split("10 --instance c5.large --disk gp3:500GiB --batch-size 8 --out"), str(out)
        )
        == 0
    )
    trial, *again = measured.given
    assert again == [trial, trial]
    assert (trial.resources.vcpus, trial.resources.memory_mib) == (2, 4096)
    assert trial.resources.disk.type == "gp3"
    assert trial.workload.batch_size == 8
    (row,) = open_store().all()
    assert row.trial.trial_id == trial.trial_id == json.loads(out.read_text())["trial_id"]
    assert len(row.run_steps) == 3


def test_a_verification_stands_on_its_own_runs_and_joins_them_to_the_row(images, measured, capsys):
    for _ in range(2):
        capsys.readouterr()
        verify(images, "10", "-o", "json")
        assert json.loads(capsys.readouterr().out)["measured"]["runs"] == 3
    (row,) = open_store().all()
    assert len(row.run_steps) == 6


def test_no_further_run_begins_where_its_time_is_over(images, measured, monkeypatch):
    """A run of 70 s leaves no room for another one in two minutes."""
    clock = iter(range(0, 10_000, 35))
    monkeypatch.setattr("advisor.runs.sweeps.further_runs.time.monotonic", lambda: float(next(clock)))
    verify(images, "10", "--minutes", "2")
    assert len(measured.given) == 1


def test_a_failed_trial_is_one_line_and_stays_stored(images, measured, capsys):
    measured.status = Status.FAILED
    assert verify(images, "10") == 1
    assert "no such device" in capsys.readouterr().err
    assert [row.status for row in open_store().all()] == [Status.FAILED]


@pytest.mark.parametrize(
    ("more", "words"),
    [
        (("--instance", "g9x.large"), "unknown instance type"),
        (("--minutes", "99"), "--minutes takes up to 60"),
        (("--samples", "500"), "leave it out with --data"),
        (("--out", "/nowhere/run.jsonl"), "a folder that exists"),
        (("--disk", "gp9"), "unknown disk type"),
        (("--disk", "gp3,local"), "names the disk that is verified"),
        (("--instance", " "), "--instance is empty"),
    ],
)
def test_a_wrong_question_starts_nothing_and_names_the_way_out(images, measured, capsys, more, words):
    assert verify(images, "10", *more) == 2
    assert words in capsys.readouterr().err
    assert measured.given == []


def test_a_negative_target_and_missing_data_are_refused(tmp_path, measured, capsys):
    assert verify(tmp_path / "gone", "10") == 2
    assert verify(tmp_path, "-5") == 2
    said = capsys.readouterr().err
    assert "there is nothing at" in said
    assert "--target-throughput must be a number above 0" in said


def test_an_emulated_gpu_that_is_too_slow_by_itself_is_not_tried(measured, capsys):
    code = run(
        [
            *shlex.split("verify --task inference --model googlenet --target-throughput 99999"),
            *shlex.split("--accelerator emulated:T4"),
        ]
    )
    assert code == 2
    assert "nothing can be learnt here" in capsys.readouterr().err


@pytest.mark.machine
@pytest.mark.slow
def test_a_real_trial_measures_and_answers(tmp_path, capsys):
    """Anything decodes an image in ten seconds, whatever else runs on the machine."""
    write_samples(tmp_path, range(120), seed=0)
    assert verify(tmp_path, "0.1", "--minutes", "0.1", "--batch-size", "4", "-o", "json") == 0
    assert json.loads(capsys.readouterr().out)["measured"]["throughput"]["lower"] > 0.1


@pytest.mark.slow
def test_a_file_that_is_called_like_a_bundled_network_is_verified_itself(tmp_path, images, measured):
    """On this machine's CPU; until now no file could be verified."""
    file = tmp_path / "resnet50.py"
    file.write_text(
        "from torch import nn\nINPUT_SHAPE = (3, 64, 64)\n\n\ndef build():\n"
        "    return nn.Sequential(nn.Conv2d(3, 8, 3), nn.AdaptiveAvgPool2d(1), nn.Flatten())\n"
    )
    words = ("verify", "--task", "inference", "--model", f"{file}:build", "--data", str(images))
    assert run([*words, "--target-throughput", "1", "--accelerator", "cpu"]) in (0, 1, 3)
    assert measured.given
    assert {Path(trial.workload.network).name for trial in measured.given} == {"resnet50.py:build"}
