"""`advisor fit`: prints the held-out error, keeps the model, refuses what it cannot use."""

from __future__ import annotations

import json
import re

import pytest
from msgspec.structs import replace

from advisor.catalog import load_catalog
from advisor.domain import ON_ANY_GPU, REPLAYED_FROM, Provenance, Task, Workload
from advisor.files import own_model_path
from advisor.models.performance import load_model
from advisor.store.measurements import open_store
from advisor.sweeps.formats import measurement_to_dict
from tests.models.performance.synthetic import measure, measurement, trials, true_parameters
from tests.models.performance.test_persistence import FINGERPRINT

pytestmark = pytest.mark.vector

GPUS = load_catalog().gpus


def written(path, rows):
    path.write_text("".join(json.dumps(measurement_to_dict(row)) + "\n" for row in rows))
    return path


@pytest.fixture
def exported(tmp_path):
    return written(tmp_path / "measurements.jsonl", measure(trials(), true_parameters()))


@pytest.fixture
def fit(shown):
    return lambda *words: shown("fit", *words)


def test_the_error_is_told_beside_every_predictor_and_the_speed_of_the_machine(
    answer, fit, exported, tmp_path
):
    out = tmp_path / "deep" / "model.json"
    document = answer("fit", "--from", exported, "--out", out)
    assert document["fitted"] == len(trials())
    assert document["held_out_error_percent"]["median"] <= 10
    assert document["model"]["id"] == load_model(out).id
    assert [row["predictor"] for row in document["compared"]] == ["shipped", "boosting", "linear", "fitted"]
    assert [machine["cpu"] for machine in document["machines"]] == ["test"]
    text = fit("--from", exported, "--out", out)
    assert load_model(out).id in text
    assert "Held-out error (5-fold over configurations): median" in text
    assert "the model that ships" in text
    assert re.search(r"Your test is \d.\d\d of what its name promises", text)


def test_later_answers_name_the_fit_until_it_is_reset(answer, fit, exported):
    fit("--from", exported)
    asked = ("recommend", "--task", "inference", "--model", "googlenet", "--target-throughput", "300")
    named = [note for note in answer(*asked)["warnings"] if "your own fit" in note]
    assert len(named) == 1
    assert load_model(own_model_path()).id in named[0]
    assert "answers come from the model that ships" in fit("--reset")
    assert not own_model_path().exists()
    assert not [note for note in answer(*asked)["warnings"] if "your own fit" in note]


def test_the_store_is_the_default_source_and_the_data_folder_the_default_place(fit, monkeypatch, tmp_path):
    monkeypatch.setenv("ADVISOR_DATABASE_URL", f"sqlite:///{tmp_path / 'store.sqlite'}")
    store = open_store()
    for row in measure(trials(), true_parameters()):
        store.append_all([row])
    store.close()
    fit()
    assert load_model(own_model_path()).error_percent < 10


def test_a_bad_line_is_named(stderr, exported):
    exported.write_text(exported.read_text() + "{torn")
    assert re.search(f"line {len(trials()) + 1}", stderr("fit", "--from", exported, code=1))


def gpu_trial(network="resnet50", batch=32, factor=1.3, seed=0, **changes):
    """A measurement of training on a real T4 whose GPU alone is slower than predicted."""
    workload = Workload(network=network, task=Task.TRAINING, batch_size=batch)
    rate = batch / (factor * load_model().published_step_seconds(workload, GPUS["T4"]))
    on_gpu = {"accelerator": ON_ANY_GPU, "emulated_step_seconds": None, "plan": {"seed": seed}}
    planned = replace(trials()[0], workload=workload, **on_gpu)
    environment = {"gpu": "Tesla T4", "versions": {"torch": "2.13.0"}}
    facts = {"stage_rates": {"accelerator": rate}, "environment": environment}
    return replace(measurement(planned, 0.8 * rate), **{**facts, **changes})


def rate_on(model, network, gpu, batch=32):
    workload = Workload(network=network, task=Task.TRAINING, batch_size=batch)
    return model.predict_gpu([workload], GPUS[gpu])[0]


def test_steps_of_a_real_gpu_move_it_its_networks_and_what_is_alike(answer, exported, tmp_path):
    """Measured on a T4: that cell is measured, other networks there and other GPUs follow."""
    steps = [gpu_trial(name, factor=1.15) for name in ("resnet50", "vgg16", "alexnet")]
    repeats = [gpu_trial("resnet50", factor=item, seed=1 + n) for n, item in enumerate((1.1, 1.2))]
    source = written(tmp_path / "rows.jsonl", [*measure(trials(), true_parameters()), *steps, *repeats])
    out = tmp_path / "model.json"
    told = answer("fit", "--from", source, "--out", out)["gpu_steps"]
    assert (told["taken"], told["trials"], told["contradicting"]) == (3, 5, [])
    assert told["error_before_percent"] == pytest.approx(15, abs=1)
    own, shipped = load_model(out), load_model()
    slower = {
        (network, gpu): rate_on(shipped, network, gpu).median / rate_on(own, network, gpu).median
        for network, gpu in (("resnet50", "T4"), ("resnet18", "T4"), ("resnet50", "L4"))
    }
    assert slower["resnet50", "T4"] == pytest.approx(1.15, rel=0.04)
    assert 1.02 < slower["resnet18", "T4"] < 1.15
    assert 1 < slower["resnet50", "L4"] < 1.15
    assert rate_on(own, "resnet50", "T4").provenance is Provenance.MEASURED
    assert rate_on(own, "resnet18", "T4").provenance is not Provenance.MEASURED
    assert own.trained_on.endswith("3 steps measured on T4")


def test_few_trials_of_a_gpu_are_taken_and_the_pipeline_that_ships_is_kept(answer, fit, tmp_path):
    out = tmp_path / "model.json"
    source = written(tmp_path / "rows.jsonl", [gpu_trial()])
    said = fit("--from", source, "--out", out)
    assert "Host, storage and join stay those that ship: 1 usable measurements are too few" in said
    assert "Took 1 GPU step of 1 trial on T4" in said
    assert load_model(out).pipeline == load_model().pipeline
    assert rate_on(load_model(out), "resnet50", "T4").provenance is Provenance.MEASURED
    document = answer("fit", "--from", source, "--out", out)
    assert document["held_out_error_percent"] == {"median": None, "mean": None, "p90": None}
    assert "too few" in document["pipeline_kept"]


def test_steps_that_contradict_are_told_and_what_is_no_step_is_left_out(fit, tmp_path):
    rows = [gpu_trial(factor=1.0), gpu_trial("vgg16", factor=9.0), gpu_trial("alexnet", factor=1e-3)]
    unknown = {"gpu": "GPU X", "versions": {"torch": "2"}}
    rows += [gpu_trial("vgg19", environment=unknown), gpu_trial("vgg13", stage_rates={})]
    said = fit("--from", written(tmp_path / "rows.jsonl", rows), "--out", tmp_path / "m")
    assert "(vgg16 training in fp32, batch 32 on T4) contradicts the other steps" in said
    assert "Left out of the GPU steps 1: it is faster than its GPU can compute" in said
    assert "no data sheet of the GPU 'GPU X'" in said
    assert "Left out of the GPU steps 1: what the network alone takes is not in it" in said


def test_of_many_batch_sizes_of_a_cell_four_that_are_spread_are_kept(answer, tmp_path):
    rows = [gpu_trial("resnet50", batch=size, factor=1.0) for size in (1, 2, 4, 8, 16, 32, 64)]
    document = answer("fit", "--from", written(tmp_path / "r", rows), "--out", tmp_path / "model.json")
    assert (document["gpu_steps"]["taken"], document["gpu_steps"]["trials"]) == (4, 7)
    kept = [step.workload.batch_size for step in load_model(tmp_path / "model.json").gpu_observations.steps]
    assert kept == [1, 4, 16, 64]


def test_a_probe_of_the_gpu_is_taken_once_with_its_trials(fit, tmp_path):
    """It is stored with every trial that was measured after it."""
    probe = {**FINGERPRINT, "probed_at": "2026-11-21T03:00:00+00:00", "gpus": ["Tesla T4"]}
    facts = {"gpu": "Tesla T4", "versions": {"torch": "2"}, "fingerprint": probe}
    rows = [gpu_trial(factor=1.0, seed=seed, environment=facts) for seed in range(2)]
    out = tmp_path / "model.json"
    source = written(tmp_path / "rows.jsonl", rows)
    assert "layers that `advisor probe` timed on T4" in fit("--from", source, "--out", out)
    layers = load_model(out).gpu_observations.layers
    assert len({(layer.name, layer.precision, layer.backward) for layer in layers}) == len(layers) > 30


def test_emulated_and_replayed_gpus_tell_nothing_of_gpus(answer, exported, tmp_path):
    replayed = gpu_trial()
    replayed = replace(replayed, environment={**replayed.environment, REPLAYED_FROM: "rows.csv"})
    source = written(tmp_path / "rows.jsonl", [*measure(trials(), true_parameters()), replayed])
    document = answer("fit", "--from", source, "--out", tmp_path / "m")
    assert document["gpu_steps"]["taken"] == 0
