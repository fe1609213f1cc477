"""Each check tells what is so, and what to do where it is not well."""

import datetime
import time
from contextlib import closing
from pathlib import Path
from unittest.mock import Mock

import pytest
from msgspec.structs import replace

from advisor.errors import DataError, MeasuringError
from advisor.runs import doctor
from advisor.runs.doctor import Finding, State, document, run_checks, worst
from advisor.store.measurements import open_store
from advisor.sweeps.trial.ownership import Orphan, own_tag, this_process
from tests.advisor.render.schemas import assert_keeps
from tests.sweeps.builders import measurement

PRICES = datetime.date(2026, 7, 20)


def left(remove=lambda: None):
    return Orphan(kind="cgroup", name="/g", owner=own_tag(), command="rmdir '/g'", remove=remove)


def raising(error):
    """A function that fails so, whatever it is asked."""
    return Mock(side_effect=error)


refuse = raising(PermissionError(1, "Operation not permitted"))


@pytest.mark.parametrize(
    ("result", "keep", "state", "words"),
    [
        ([], False, State.OK, "none"),
        ([left()], False, State.OK, "1 of killed sweeps, removed: cgroup /g"),
        ([left(refuse)], True, State.WARNING, "1 of killed sweeps: cgroup /g"),
        ([left(refuse)], False, State.PROBLEM, "cannot be removed .Operation not permitted."),
    ],
)
def test_leftovers_are_removed_unless_it_is_a_dry_run(monkeypatch, result, keep, state, words):
    monkeypatch.setattr(doctor, "find_orphans", lambda: result)
    finding = replace(doctor.check_leftovers(keep=keep), check="leftovers")
    assert finding.state is state
    assert words.replace(".", "") in finding.found.replace("(", "").replace(")", "")
    assert bool(finding.advice) == (state is not State.OK)
    if state is State.PROBLEM:
        assert "sudo rmdir '/g'" in finding.advice
    assert_keeps(document([finding]), "doctor")


def test_limits_that_cannot_be_made_are_a_problem_with_the_way_out(monkeypatch):
    monkeypatch.setattr(doctor, "strongest_limits", raising(PermissionError("no")))
    finding = doctor.check_limits()
    assert finding.state is State.PROBLEM
    assert "--privileged" in finding.advice


def test_a_small_shared_memory_is_told_with_the_option_for_it(tmp_path, monkeypatch):
    monkeypatch.setattr(doctor.shutil, "disk_usage", Mock(**{"return_value.free": 64 * 2**20}))
    finding = doctor.check_shared_memory(tmp_path)
    assert finding.state is State.WARNING
    assert "--shm-size" in finding.advice
    assert doctor.check_disk().state is State.PROBLEM


def test_a_clock_before_the_bundled_prices_is_wrong(monkeypatch):
    index = datetime.datetime(2026, 7, 19, 23, tzinfo=datetime.UTC)
    assert doctor.check_clock(index).state is State.PROBLEM
    assert doctor.check_clock(index + datetime.timedelta(days=300)).state is State.OK
    monkeypatch.setattr(doctor, "_bundle", raising(DataError("damaged")))
    assert doctor.check_clock(index).state is State.OK


@pytest.mark.parametrize(
    ("code", "patience", "words"),
    [
        ("raise ImportError('libcudart.so.12: cannot open')", 60, "libcudart.so.12"),
        ("import os; os.kill(os.getpid(), 11)", 60, "ended with code -11"),
        ("print('[')", 60, "does not load"),
        ("import time; time.sleep(600)", 0.5, "did not load in 0.5 s"),
    ],
)
def test_a_torch_that_breaks_or_hangs_is_told_and_breaks_nothing_here(code, patience, words):
    pytest.importorskip("torch")
    finding = doctor.check_torch(patience, code)
    assert finding.state is State.PROBLEM
    assert words in finding.found


def test_a_torch_without_cuda_beside_a_driver_is_a_problem(monkeypatch, tmp_path):
    text = '{"version": "2.13.0+cpu", "cuda_build": null, "gpus": []}'
    monkeypatch.setattr(doctor, "find_spec", lambda _: True)
    code = f"print('''{text}''')"
    monkeypatch.setattr(doctor, "_DRIVER", tmp_path / "none")
    assert doctor.check_torch(30, code).state is State.OK
    monkeypatch.setattr(doctor, "_DRIVER", tmp_path)
    assert "though a driver is loaded" in doctor.check_torch(30, code).found


def test_packages_that_are_not_there_are_named_with_what_installs_them(monkeypatch):
    monkeypatch.setattr(doctor, "find_spec", lambda _: None)
    for check in (doctor.check_torch, doctor.check_ray):
        assert check().state is State.WARNING
        assert "pip install" in check().advice
    assert "--executor process" in doctor.check_ray().advice


def test_a_gpu_whose_driver_fails_is_a_problem_and_no_gpu_is_none(monkeypatch, tmp_path):
    monkeypatch.setattr(doctor, "gpus", raising(MeasuringError("NVIDIA's driver does not answer")))
    assert doctor.check_gpu().state is State.PROBLEM
    monkeypatch.setattr(doctor, "gpus", raising(MeasuringError("no driver", code="no_nvml")))
    monkeypatch.setattr(doctor, "_DRIVER", tmp_path / "none")
    assert doctor.check_gpu().state is State.OK
    monkeypatch.setattr(doctor, "_DRIVER", tmp_path)
    assert "--gpus all" in doctor.check_gpu().advice


def test_the_database_is_told_and_never_changed(url, tmp_path, monkeypatch):
    monkeypatch.setenv("ADVISOR_DATABASE_URL", url)
    empty = doctor.check_database()
    assert (empty.state, empty.facts["tables"]) == (State.OK, "nothing")
    assert not (tmp_path / "m.sqlite").exists()
    with closing(open_store()) as store:
        store.append_all([measurement()])
        store.leases.take({"a trial": ""}, this_process())
        finding = doctor.check_database()
        monkeypatch.setattr("advisor.store.locks.process_has_gone", lambda *_: True)
        assert "1 leases of drivers that are gone" in doctor.check_database().found
    assert finding.state is State.OK
    assert (finding.facts["rows"], len(finding.facts["held"]), finding.facts["left_leases"]) == (1, 1, 0)
    assert finding.facts["program"].split()[0] in ("SQLite", "PostgreSQL")
    assert finding.facts["tables"] == "head"


def test_a_database_that_does_not_answer_is_a_problem(monkeypatch):
    monkeypatch.setenv("ADVISOR_DATABASE_URL", "postgresql://u:secret@127.0.0.1:1/d")
    finding = doctor.check_database(0.1)
    assert finding.state is State.PROBLEM
    assert "secret" not in finding.found


def test_measurements_that_no_database_took_are_told_with_the_command(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    assert doctor.check_unsaved().state is State.OK
    (tmp_path / "unsaved-20261121T120000Z-7.jsonl").write_text("{}\n")
    finding = doctor.check_unsaved()
    assert finding.state is State.WARNING
    assert f"advisor measurements import {tmp_path}/unsaved" in finding.advice


def test_the_bundle_is_whole_and_its_age_is_told():
    young = doctor.check_bundle(PRICES + datetime.timedelta(days=3))
    assert (young.state, young.facts["age_days"]) == (State.OK, 3)
    assert len(young.facts["digest"]) == 64
    assert doctor.check_bundle(PRICES + datetime.timedelta(days=400)).state is State.WARNING


def test_the_age_of_prices_is_counted_in_days_of_utc_as_answers_count_it(monkeypatch):
    """It is another day in one of these two zones at any time."""
    ages = set()
    with monkeypatch.context() as there:
        for zone in ("Etc/GMT-14", "Etc/GMT+12"):
            there.setenv("TZ", zone)
            time.tzset()
            ages.add(doctor.check_bundle().facts["age_days"])
    time.tzset()
    assert len(ages) == 1


def test_a_check_that_fails_itself_hides_no_other():
    fails = raising(RuntimeError("oh\nno"))
    fine = Finding(State.OK, "2.60.0")
    findings = run_checks({"clock": fails, "ray": lambda: fine})
    assert [finding.state for finding in findings] == [State.PROBLEM, State.OK]
    assert "oh no" in findings[0].found
    assert worst(findings) is State.PROBLEM
    assert_keeps(document(findings), "doctor")


def test_limits_are_really_tried_and_nothing_of_that_is_left():
    finding = doctor.check_limits()
    assert finding.state in State
    assert not list(Path("/sys/fs/cgroup").glob(f"*/{own_tag()}-*"))
