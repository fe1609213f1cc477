"""`advisor verify`: one trial or one load of an endpoint, its verdict as an exit code; or why not."""

import json
import shlex

import jsonschema
import pytest

from advisor.answers.reporting.saved import first_fault
from advisor.domain import Status
from advisor.store.measurements import open_store
from advisor.sweeps.datasets.making import write_samples
from tests.sweeps.measure.endpoint.openai_server import WELL, fake_endpoint
from tests.sweeps.measure.endpoint.test_anchors import SCHEMA


@pytest.fixture(autouse=True)
def _alone(own_folder, monkeypatch, tmp_path):
    """Own folder, store and day."""
    monkeypatch.setenv("ADVISOR_DATABASE_URL", f"sqlite:///{tmp_path}/store.sqlite")
    monkeypatch.setenv("ADVISOR_TODAY", "2026-07-21")


@pytest.fixture
def measured(measured):
    measured.row["step_seconds"] = (0.1,) * 60
    return measured


VERIFY = ("verify", "--task", "preprocessing", "--model", "googlenet", "--target-throughput")


@pytest.mark.parametrize(
    ("seconds", "status", "code", "word"),
    [(0.1, Status.OK, 0, "pass"), (0.5, Status.OK, 3, "missed"), (0.5, Status.CONTAMINATED, 1, "undecided")],
)
def test_the_verdict_is_the_exit_code(answer, images, measured, seconds, status, code, word):
    measured.row |= {"step_seconds": (seconds,) * 60, "status": status}
    assert answer(*VERIFY, "100", "--data", images, code=code)["verdict"] == word


def test_the_machine_is_held_to_the_instance_and_three_runs_are_stored(shown, images, measured, tmp_path):
    out = tmp_path / "run.jsonl"
    on = shlex.split("--instance c5.large --disk gp3:500GiB --batch-size 8")
    shown(*VERIFY, "10", "--data", images, *on, "--out", out)
    trial, *again = measured.given
    assert again == [trial, trial]
    assert (trial.resources.vcpus, trial.resources.memory_mib) == (2, 4096)
    assert trial.resources.disk.type == "gp3"
    assert trial.workload.batch_size == 8
    (row,) = open_store().all()
    assert row.trial.trial_id == trial.trial_id == json.loads(out.read_text())["trial_id"]
    assert len(row.run_steps) == 3


def test_a_verification_stands_on_its_own_runs_and_joins_them_to_the_row(answer, images, measured):
    for _ in range(2):
        assert answer(*VERIFY, "10", "--data", images)["measured"]["runs"] == 3
    (row,) = open_store().all()
    assert len(row.run_steps) == 6


def test_no_further_run_begins_where_its_time_is_over(ask, images, measured, monkeypatch):
    """A run of 70 s leaves no room for another one in two minutes."""
    clock = iter(range(0, 10_000, 35))
    monkeypatch.setattr("advisor.runs.verification.verify.time.monotonic", lambda: float(next(clock)))
    ask(*VERIFY, "10", "--data", images, "--minutes", "2")
    assert len(measured.given) == 1


def test_a_failed_trial_is_one_line_and_stays_stored(stderr, images, measured):
    measured.row["status"] = Status.FAILED
    assert "no such device" in stderr(*VERIFY, "10", "--data", images, code=1)
    assert [row.status for row in open_store().all()] == [Status.FAILED]


@pytest.mark.machine
@pytest.mark.slow
def test_a_real_trial_measures_and_answers(answer, tmp_path):
    write_samples(tmp_path, range(120), seed=0)
    document = answer(*VERIFY, "0.1", "--data", tmp_path, "--minutes", "0.1", "--batch-size", "4")
    assert document["measured"]["throughput"]["lower"] > 0.1


ASKED = (
    *shlex.split("verify --task generation --model meta-llama/Llama-3.1-8B --input-tokens 60"),
    *shlex.split("--output-tokens 10 --allow-extrapolation --minutes 0.03"),
)


def verified(ask, endpoint, *more):
    return ask(*ASKED, "--endpoint", endpoint.url, *more)


def test_a_server_that_keeps_its_limit_passes(ask, tmp_path):
    words = "--users 3 --max-tpot-ms 200 --instance g6.xlarge --out anchor.json"
    with fake_endpoint(tpot_seconds=0.01) as endpoint:
        code, shown, text = verified(ask, endpoint, *words.split())
        assert endpoint.most_in_flight == 3
    assert code == 0, text
    assert shown.startswith("Keeps target and limits")
    assert "take g6.xlarge" in shown
    assert "nobody but you says that the endpoint runs on L4" in shown
    assert max(map(len, shown.splitlines())) <= 100
    anchor = json.loads((tmp_path / "anchor.json").read_text())
    jsonschema.validate(anchor, SCHEMA)
    assert (anchor["deployment"]["gpu"], anchor["engine"]["name"]) == ("L4", "vllm")


def test_a_server_that_breaks_its_limit_misses_with_exit_code_3(ask):
    words = "--users 2 --max-tpot-ms 5 --max-ttft-ms 5000 --instance g6.xlarge -o json"
    with fake_endpoint(tpot_seconds=0.02) as endpoint:
        code, shown, _ = verified(ask, endpoint, *words.split())
    document = json.loads(shown)
    assert first_fault(document, "advisor.serving-verification/1") is None
    assert (code, document["verdict"]) == (3, "missed")
    verdicts = {row["name"]: row["verdict"] for row in document["criteria"]}
    assert verdicts == {"ttft_seconds": "pass", "tpot_seconds": "missed", "failed_share": "pass"}


def test_a_server_that_fails_is_an_error_and_no_verdict(ask):
    """A fault is no missed target: exit code 1, and the fault."""
    with fake_endpoint(behaviours=[*[WELL] * 6, "500"]) as endpoint:
        code, shown, text = verified(ask, endpoint, "--users", "2", "--instance", "g6.xlarge")
    assert (code, shown, "said 500" in text) == (1, "", True)
