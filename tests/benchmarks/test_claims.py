"""The comparison with the articles: no claim is forgotten, nothing passes for more than it is."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from advisor.domain import (
    Accelerator,
    CacheState,
    DatasetProfile,
    DiskRate,
    LimitedBy,
    Measurement,
    Resources,
    Status,
    Task,
    Trial,
    Workload,
)
from advisor.errors import UsageError
from advisor.sweeps.machine.mounts import block_device
from advisor.sweeps.planning.networks import StoredData
from advisor.sweeps.worker.pipeline.policy import STORED_ORDER
from benchmarks.claims.answers import answer, document, finders
from benchmarks.claims.evidence import Evidence, MissingTrialsError, full_speed, rate_of
from benchmarks.claims.knees import Knee, knee_of
from benchmarks.claims.read_ahead import read_ahead, require_same
from benchmarks.claims.rows_a5 import spearman
from benchmarks.claims.scale import SCALE, accelerator, cloud_disks, paced
from benchmarks.claims.tables import markdown, table
from benchmarks.claims.trials import FULL, Plan
from benchmarks.claims.words import Finding, Kind, Verdict, read_claims
from benchmarks.claims.work import Work

_ALL = {"A": 17, "B": 7, "C": 8, "D": 5, "E": 8}


def _profile(storage: str, size: float = 200_000) -> DatasetProfile:
    return DatasetProfile(
        name="photographs", samples=4000, bytes_per_sample=size, storage_format=storage, width=256, height=256
    )


def _row(rate: float, *, vcpus: float = 2.0, status: Status = Status.OK) -> Measurement:
    """A trial at the scale that reached `rate`; its accelerator alone reaches 100."""
    trial = Trial(
        workload=Workload(network="googlenet", task=Task.INFERENCE, batch_size=32, dataset=_profile("lmdb")),
        resources=Resources(
            vcpus=vcpus, physical_cores=vcpus, memory_mib=4096, disk=DiskRate(type="unlimited")
        ),
        accelerator=accelerator(SCALE),
        emulated_step_seconds=0.32,
        plan={"loader_workers": 1},
    )
    return Measurement(
        trial=trial,
        status=status,
        limited_by=LimitedBy.CGROUP_V1,
        step_seconds=(32 / rate,) * 6,
        stage_rates={"accelerator": 100.0, "host": 50.0 * vcpus},
        reason="others were busy" if status is not Status.OK else "",
    )


def test_every_claim_of_the_articles_has_its_row() -> None:
    claims = read_claims()
    assert len(claims) == 45
    assert {letter: sum(c.startswith(letter) for c in claims) for letter in _ALL} == _ALL
    assert list(finders()) == list(claims)


def test_a_knee_is_the_fewest_vcpus_near_the_most() -> None:
    knee = knee_of({0.25: _row(25, vcpus=0.25), 1.0: _row(99, vcpus=1.0), 2.0: _row(100)})
    assert knee.at(0.03) == 1.0 * SCALE
    assert knee.shown(0.03) == "4"
    assert knee.vcpus_needed == pytest.approx(100 * SCALE / 50)


def test_a_curve_that_never_feeds_the_accelerator_has_no_knee() -> None:
    knee = knee_of({0.25: _row(12, vcpus=0.25), 2.0: _row(80)})
    assert knee.at(0.03) is None
    assert knee.shown(0.03) == ">8"


def test_between_alike_ends_a_curve_is_flat_and_between_others_it_is_unknown() -> None:
    flat = Knee(rates={1.0: 99.0, 8.0: 100.0}, accelerator=100.0, vcpus_needed=0.5)
    steep = Knee(rates={1.0: 20.0, 8.0: 100.0}, accelerator=100.0, vcpus_needed=4.0)
    assert flat.share(4.0) == pytest.approx(0.99)
    assert steep.share(4.0) is None


def test_a_trial_that_ended_badly_is_no_rate() -> None:
    with pytest.raises(MissingTrialsError, match="contaminated: others were busy"):
        rate_of(_row(50, status=Status.CONTAMINATED))


def test_a_trial_without_limits_is_no_rate() -> None:
    with pytest.raises(MissingTrialsError, match="not held to its limits"):
        rate_of(replace(_row(50), limited_by=LimitedBy.NONE))


def test_only_slowed_accelerators_are_scaled_back() -> None:
    row = _row(50)
    assert full_speed(row) == pytest.approx(50 * SCALE)
    plain = replace(row, trial=replace(row.trial, accelerator=accelerator(1)))
    assert full_speed(plain) == pytest.approx(50)


def test_a_slowed_accelerator_and_disk_never_pass_for_real_ones() -> None:
    assert accelerator(SCALE) != accelerator(1) == Accelerator.parse("emulated:P100")
    disk = cloud_disks()["efficient"]
    assert disk.rate(SCALE).type != disk.rate(1).type
    assert disk.rate(SCALE).read_mib_per_second == pytest.approx(140e6 / 2**20 / SCALE)
    workload = Workload(network="googlenet", task=Task.INFERENCE, batch_size=32)
    slowed = accelerator(SCALE).gpu
    assert paced(workload, slowed) == pytest.approx(SCALE * paced(workload, "P100"))


@pytest.mark.parametrize("task", [Task.TRAINING, Task.INFERENCE])
def test_the_plan_fits_a_machine_of_two_cores(task: Task, tmp_path: Path) -> None:
    datasets = {name: (tmp_path, _profile(name)) for name in ("files", "tar", "recordio", "lmdb")}
    text = StoredData(_profile("text"), str(tmp_path))
    plan = Plan(FULL, datasets, text)
    trials = [*plan.vcpus("vgg16", task, "lmdb", (0.25, 1.0)), *plan.disks(task), *plan.text()]
    assert max(trial.resources.vcpus for trial in trials) <= 2
    assert {trial.cache for trial in plan.disks(task)} == {CacheState.COLD}
    assert {trial.plan["order"] for trial in plan.disks(task)} == {STORED_ORDER}


def test_without_trials_rows_say_so_and_the_others_are_told(tmp_path: Path) -> None:
    evidence = _Empty(Work(tmp_path, FULL), measure=False)
    findings = answer(evidence, ["A11", "B01", "E08"])
    assert findings["A11"].kind is Kind.NOT_MEASURED
    assert findings["B01"].kind is Kind.OUT_OF_SCOPE
    assert findings["B01"].why
    assert findings["E08"].kind is Kind.MODELLED


class _Empty(Evidence):
    """Knows its data sets, and no trial."""

    @property
    def plan(self) -> Any:
        place = (Path(), _profile("lmdb"))
        return Plan(FULL, dict.fromkeys(("files", "tar", "recordio", "lmdb"), place))


def test_a_result_is_made_once_and_survives_a_torn_line(tmp_path: Path) -> None:
    work = Work(tmp_path, FULL)
    assert work.once("a", lambda: {"n": 1}) == {"n": 1}
    with (tmp_path / "results.jsonl").open("a") as file:
        file.write('{"key": "b", "cont')
    again = Work(tmp_path, FULL)
    assert again.once("a", lambda: {"n": 2}) == {"n": 1}
    assert again.once("b", lambda: {"n": 3}) == {"n": 3}
    assert again.results() == {"a": {"n": 1}, "b": {"n": 3}}


def test_the_page_names_how_each_figure_came_about() -> None:
    findings = {
        "A11": Finding(kind=Kind.MEASURED, verdict=Verdict.DIFFERS, ours="65 %", why="cold", scale=SCALE),
        "B01": Finding(kind=Kind.OUT_OF_SCOPE, verdict=Verdict.UNKNOWN, ours="-", why="prices"),
    }
    told = {
        "date": "2026-11-21",
        "size": "full",
        "trials": 3,
        "conversions": 0,
        "read_ahead_kib": 128,
        "machine": {"cpu": "a CPU", "cpus": 2},
        "claims": document(findings),
    }
    page = markdown(json.loads(json.dumps(told)))
    assert f"measured at 1/{SCALE} scale" in page
    assert "out of scope" in page
    assert "- **A11**: cold" in page


def test_the_read_ahead_is_set_for_a_while_and_never_mixed(tmp_path: Path) -> None:
    device = block_device(tmp_path)
    file = tmp_path / (device or "none") / "queue" / "read_ahead_kb"
    file.parent.mkdir(parents=True)
    file.write_text("8192\n")
    with read_ahead(tmp_path, 128, sys_dev=tmp_path) as kib:
        assert kib == 128
        assert file.read_text() == "128"
    assert file.read_text() == "8192"
    with pytest.raises(UsageError, match="--read-ahead 128"):
        require_same(128, 8192)


def test_cells_keep_a_table_whole() -> None:
    assert table(("a",), [("x|y\nz",)]).splitlines()[-1] == "| x\\|y z |"


def test_rank_correlation_of_ties_and_of_opposites() -> None:
    assert spearman([1, 2, 3], [10, 20, 30]) == pytest.approx(1)
    assert spearman([1, 2, 3], [3, 2, 1]) == pytest.approx(-1)
    assert spearman([1, 1, 2], [5, 5, 9]) == pytest.approx(1)
