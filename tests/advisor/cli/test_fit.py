"""`advisor fit`: prints the held-out error, keeps the model, refuses what it cannot use."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from advisor.catalog import load_catalog
from advisor.cli.fit import fit
from advisor.domain import Task, Workload
from advisor.errors import DataError
from advisor.operations.places import own_model_path
from models.performance import load_model
from sweeps.serialization import measurement_to_dict
from sweeps.store import open_store
from tests.models.performance.synthetic import measure, trials, true_parameters


@pytest.fixture
def exported(tmp_path):
    path = tmp_path / "measurements.jsonl"
    rows = measure(trials(), true_parameters())
    path.write_text("".join(json.dumps(measurement_to_dict(row)) + "\n" for row in rows))
    return path


def run(*arguments):
    return CliRunner().invoke(fit, list(map(str, arguments)), catch_exceptions=False)


def test_the_held_out_error_is_printed_and_the_model_can_be_loaded(exported, tmp_path):
    out = tmp_path / "deep" / "model.json"
    result = run("--from", exported, "--out", out)
    assert result.exit_code == 0
    assert "Held-out error (5-fold over trials): median" in result.stdout
    assert load_model(out).id in result.stdout


def test_json_tells_the_error_what_was_fitted_and_where_it_is(exported, tmp_path):
    out = tmp_path / "model.json"
    document = json.loads(run("--from", exported, "--out", out, "-o", "json").stdout)
    assert document["schema"] == "advisor.fit/1"
    assert document["fitted"] == len(trials())
    assert document["held_out_error_percent"]["median"] <= 10
    assert document["model"]["id"] == load_model(out).id


def test_the_store_is_the_default_source_and_the_data_folder_the_default_place(
    monkeypatch, tmp_path
):
    monkeypatch.setenv("ADVISOR_DATABASE_URL", f"sqlite:///{tmp_path / 'store.sqlite'}")
    store = open_store()
    for row in measure(trials(), true_parameters()):
        store.append(row)
    store.close()
    assert run().exit_code == 0
    assert load_model(own_model_path()).error_percent < 10


def test_a_refit_keeps_the_published_gpu_rates_and_so_the_pace_of_emulated_gpus(exported, tmp_path):
    out = tmp_path / "model.json"
    run("--from", exported, "--out", out)
    workload, gpu = (
        Workload(network="resnet50", task=Task.TRAINING, batch_size=32),
        load_catalog().gpus["T4"],
    )
    paces = [
        model.published_step_seconds(workload, gpu) for model in (load_model(out), load_model())
    ]
    assert paces[0] == paces[1]


def test_the_order_of_the_rows_changes_no_digit(exported, tmp_path):
    """It tells which trial ended first: on a cluster, or after a crash, any."""
    places = [tmp_path / "first.json", tmp_path / "second.json"]
    run("--from", exported, "--out", places[0])
    exported.write_text("".join(reversed(exported.read_text().splitlines(keepends=True))))
    run("--from", exported, "--out", places[1])
    assert places[0].read_bytes() == places[1].read_bytes()


def test_an_empty_store_is_refused_with_the_way_out(monkeypatch, tmp_path):
    monkeypatch.setenv("ADVISOR_DATABASE_URL", f"sqlite:///{tmp_path / 'empty.sqlite'}")
    with pytest.raises(DataError, match=r"too few.*sweep run"):
        run()


def test_a_bad_line_is_named(exported):
    exported.write_text(exported.read_text() + "{torn")
    with pytest.raises(DataError, match=f"line {len(trials()) + 1}"):
        run("--from", exported)


def test_a_missing_file_is_named_with_the_way_out(tmp_path):
    with pytest.raises(DataError, match="measurements export"):
        run("--from", tmp_path / "absent.jsonl")
