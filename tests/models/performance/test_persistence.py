"""A model survives the way to disk and back, and a bad file is told apart in one line."""

import json
import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from advisor.domain import Observation, Stack, Task, Workload
from advisor.errors import DataError
from advisor.models.performance import load_model, paced_gpu, save_model
from advisor.models.performance.fit import with_gpu, with_id
from advisor.models.performance.gpu_observations import GpuObservations, ProbedLayer
from advisor.models.performance.persistence import content_id, to_document
from advisor.models.performance.pipeline import CpuStep
from tests.models.performance.test_prediction import machine, workload


@pytest.fixture
def saved(tmp_path):
    path = tmp_path / "model.json"
    save_model(load_model(), path)
    return path


def test_a_saved_model_is_the_same_and_answers_without_its_ranges(saved):
    """Every number, and so the id, comes back unchanged."""
    assert to_document(load_model(saved)) == to_document(load_model())
    assert load_model(saved).id == load_model().id
    old = load_model(rewritten(saved, lambda document: document["pipeline"].pop("measured")))
    (prediction,) = old.predict([(workload(), machine())])
    expected = {distance.subject for distance in old.distances(workload(), machine(), prediction)}
    assert expected == {"gpu", "network", "cpu", "host_to_gpu"}


def test_what_was_measured_of_gpus_is_kept_and_told_again(tmp_path):
    """The file has the steps and layers, not what follows from them."""
    gpu = paced_gpu("T4")
    workload = Workload(
        network="resnet50", task=Task.TRAINING, batch_size=8, stack=Stack.COMPILE, input="3x96x96"
    )
    step = Observation(workload=workload, gpu=gpu, seconds=0.1, sigma=0.05, origin="trial a")
    layer = ProbedLayer(
        name="linear.deep",
        backward=True,
        precision="amp",
        seconds=0.004,
        gpu=gpu,
        sizes={"batch": 64, "channels_in": 4096, "channels": 4096},
    )
    model = with_gpu(load_model(), GpuObservations((step,), (layer,)), load_model().step_times)
    save_model(model, tmp_path / "own.json")
    read = load_model(tmp_path / "own.json")
    assert read.gpu_observations == model.gpu_observations
    assert read.id == model.id != load_model().id
    assert to_document(read) == to_document(model)
    usual = replace(workload, input=None, stack=Stack.EAGER)
    now, before, after = (entry.predict_gpu([usual], gpu)[0].median for entry in (model, load_model(), read))
    assert after == pytest.approx(now, rel=1e-12)
    assert after != before


def rewritten(path, change):
    """The same file with a changed content, and an id that vouches for it."""
    document = json.loads(path.read_text())
    change(document)
    path.write_text(json.dumps(document | {"id": content_id(document)}))
    return path


@pytest.mark.parametrize(
    ("part", "damage"),
    [
        *(("gpu_observations", damage) for damage in ({"steps": [{}]}, {"steps": None})),
        *(
            ("gpu_observations", damage)
            for damage in ({"layers": [{"gpu": "T4"}]}, {"gpus": {"T4": {"name": 1}}})
        ),
        *(("pipeline", {"measured": {"vcpus": span}}) for span in ([2, 1], [0, 1], 3, [1])),
        ("pipeline", {"measured": {"moons": [1, 2]}}),
    ],
)
def test_observations_and_ranges_that_are_none_are_told(saved, part, damage):
    with pytest.raises(DataError, match=r"no performance model.*advisor fit"):
        load_model(rewritten(saved, lambda document: document[part].update(damage)))


def with_cpu_steps(**changes):
    step = CpuStep("resnet50", None, Task.INFERENCE, 8, 4.0, 0.5)._replace(**changes)
    model = load_model()
    reference = replace(model.pipeline.reference, model="Intel Xeon Platinum 8488C")
    pipeline = replace(model.pipeline, cpu_steps=(step,), reference=reference)
    return with_id(replace(model, pipeline=pipeline))


@pytest.mark.parametrize("changes", [{"seconds": 0.0}, {"cores": -1.0}, {"batch_size": 0}])
def test_a_step_that_cannot_be_is_no_model(tmp_path, changes):
    save_model(with_cpu_steps(**changes), tmp_path / "model.json")
    with pytest.raises(DataError, match="advisor fit"):
        load_model(tmp_path / "model.json")


@given(st.integers(0, 2_000))
def test_any_cut_file_is_told_as_no_model(cut):
    """A file that ends too early never loads and never shows a traceback's error."""
    text = json.dumps(to_document(load_model()))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "cut.json"
        path.write_text(text[:cut])
        with pytest.raises(DataError, match="advisor fit"):
            load_model(path)


def changed_number(document):
    document["pipeline"]["largest_vcpus"] += 1


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (changed_number, r"damaged.*advisor fit"),
        (
            lambda document: document.update(schema="advisor.performance/99"),
            r"advisor\.performance/99.*advisor fit",
        ),
    ],
)
def test_a_changed_number_is_noticed_and_another_format_named_with_the_way_out(saved, change, words):
    document = json.loads(saved.read_text())
    change(document)
    saved.write_text(json.dumps(document))
    with pytest.raises(DataError, match=words):
        load_model(saved)


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(DataError, match=r"absent\.json cannot be read"):
        load_model(tmp_path / "absent.json")
