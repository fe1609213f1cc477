"""The predictor's parts are estimators of scikit-learn, and what ships of them tells the same by NumPy."""

import json

import numpy as np
import pandas as pd
import pytest
from msgspec.structs import replace
from sklearn.base import clone
from sklearn.model_selection import GroupKFold, cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils.estimator_checks import check_estimator, estimator_checks_generator

from advisor.domain import Precision, Task
from advisor.errors import DataError
from advisor.infra.build.fitting.bundled_model import PUBLISHED_FOLDER
from advisor.infra.build.fitting.memory import MemoryRegressor
from advisor.infra.build.fitting.stalls import DecodeRegressor, runs_columns
from advisor.infra.build.fitting.step_times import StepTimeRegressor
from advisor.infra.build.performance_sources.frames import STEP_COLUMNS, observed_frame, published_frame
from advisor.models.performance import load_model
from advisor.models.performance.frames import checked_frame
from advisor.models.performance.memory.peak import bundled_peak_model, gpu_peak
from advisor.models.performance.memory.steps import Conditions, bundled_profile
from advisor.models.performance.networks import bundled_networks
from advisor.models.performance.persistence import bundled_step_times, from_document, to_document
from advisor.models.performance.physical_form import joined_rates
from advisor.models.performance.throughput import ThroughputModel, trial_frame, trials_of
from advisor.models.performance.usable import sort_out
from advisor.runs.fitting import reference_cpu, shipped_rows
from benchmarks.truth.asking import ScoredModel
from benchmarks.truth.rows import Row, rows_of
from tests.models.performance.synthetic import measure, trials, true_parameters

# Of scikit-learn's checks those that bring no array of their own: a trial is a row of named columns.
WITHOUT_ARRAYS = (
    *("do_not_raise_errors_in_init_or_set_params", "estimator_cloneable", "estimator_repr", "mixin_order"),
    *("estimator_tags_renamed", "estimators_unfitted", "get_params_invariance", "set_params"),
    *("no_attributes_set_in_init", "parameters_default_constructible", "valid_tag_types"),
)


@pytest.fixture(scope="module")
def sweep():
    return trial_frame(measure(trials(), true_parameters()), bundled_networks(), reference_cpu)


@pytest.mark.filterwarnings("ignore")  # the checks' own data
def test_memory_is_all_that_scikit_learn_asks_of_a_regressor():
    check_estimator(MemoryRegressor())


@pytest.mark.parametrize("estimator", [ThroughputModel(), StepTimeRegressor(), DecodeRegressor()], ids=str)
def test_what_takes_frames_is_what_scikit_learn_asks_of_an_estimator(estimator):
    checks = {check.func.__name__: check for _, check in estimator_checks_generator(estimator)}
    for name in WITHOUT_ARRAYS:
        checks[f"check_{name}"](clone(estimator))


def test_a_sweep_is_told_in_a_pipeline_with_its_deviation_and_by_mark_weight_and_columns(sweep):
    model = make_pipeline(FunctionTransformer(), ThroughputModel(calibrate=False))
    told = cross_val_predict(model, sweep, sweep["rate"], groups=sweep["configuration"], cv=GroupKFold(3))
    assert np.median(np.abs(told / sweep["rate"] - 1)) < 0.06
    assert clone(model).fit(sweep, sweep["rate"]).score(sweep, sweep["rate"]) > 0.95
    rates, deviations = ThroughputModel().fit(sweep, sweep["rate"]).predict(sweep, return_std=True)
    inside = np.abs(np.log(rates / sweep["rate"])) < deviations / rates
    assert 0.5 < inside.mean() < 0.9
    wrong = sweep["rate"].where(sweep.index != 3, 1e4)
    weights = (sweep.index != 3).astype(float)
    model = ThroughputModel(calibrate=False)
    told = model.fit(sweep, wrong, sample_weight=weights).predict(sweep)
    rest = sweep[sweep.index != 3]
    assert told == pytest.approx(model.fit(rest, rest["rate"]).predict(sweep), rel=1e-6)
    later = sweep.assign(cpu=2, score=2 * sweep["score"])
    model = ThroughputModel(calibrate=False).fit(sweep, sweep["rate"])
    host_bound = sweep["vcpus"] < 1
    assert (model.predict(later) >= model.predict(sweep))[host_bound].all()


def test_what_ships_of_throughput_says_by_numpy_what_the_estimator_says(sweep):
    rows = list(sort_out(shipped_rows(), bundled_networks().names).usable)
    frame = trial_frame(rows, bundled_networks(), reference_cpu)
    fitted = ThroughputModel().fit(frame, frame["rate"])
    shipped = load_model()
    document = {**to_document(shipped), "pipeline": {**to_document(shipped)["pipeline"]}}
    document["pipeline"]["parameters"] = dict(fitted.pipeline_.parameters)
    read = from_document(json.loads(json.dumps(document)), bundled_networks()).pipeline
    assert joined_rates(trials_of(frame), read)[0] == pytest.approx(fitted.predict(frame), rel=1e-9)


def test_what_ships_of_step_times_and_decoding_says_by_numpy_what_the_estimator_says():
    some = published_frame(PUBLISHED_FOLDER / "observations.csv.gz").iloc[::400]
    asked = ScoredModel()
    cells, places = [], []
    for place, row in enumerate(rows_of(some.astype(object).to_dict("records"))):
        if isinstance(row, Row) and row.seconds and asked.facts(row):
            cells.append((*asked.cell(row), asked.facts(row)))
            places.append(place)
    assert len(cells) > 20
    times = bundled_step_times()
    by_numpy = [float(np.exp(times.estimates([cell], facts).mean[0])) for *cell, facts in cells]
    told = StepTimeRegressor.of(times).predict(some.drop(columns="step_seconds"))
    assert told[places] == pytest.approx(by_numpy, rel=1e-9)
    # A trial's form beside a real GPU, of decoding that is known.
    runs = pd.read_csv(PUBLISHED_FOLDER / "stalls.csv")
    model = DecodeRegressor().fit(runs, runs["real_samples_per_second"])
    shipped = replace(load_model().pipeline, parameters=model.parameters_)
    columns = runs_columns(runs)
    speeds = [model.speeds_[name] for name in runs.host + "/" + runs.augmentation]
    rates = shipped.stage_rates(columns, runs["synthetic_samples_per_second"].to_numpy())
    rates[:, 1] *= np.exp(speeds)
    rates[:, 2:] = np.inf
    assert shipped.join(columns, rates)[0] == pytest.approx(model.predict(runs), rel=1e-9)


@pytest.mark.parametrize("task", [Task.TRAINING, Task.INFERENCE])
def test_what_ships_of_memory_says_by_numpy_what_the_estimator_says(task):
    conditions = Conditions(task=task, batch_size=32, precision=Precision.AMP)
    peaks = [gpu_peak(bundled_profile(name), conditions) for name in ("resnet50", "vgg16", "densenet121")]
    steps = np.array([[peak.step.tensors_mib, peak.step.spare_mib] for peak in peaks])
    told = MemoryRegressor.of(bundled_peak_model()).predict(steps)
    assert told == pytest.approx([peak.median_mib for peak in peaks], rel=1e-9)


def test_memory_finds_what_cuda_takes_and_its_errors_are_of_families_not_seen():
    random = np.random.default_rng(0)
    steps = random.uniform(1_000, 5_000, (200, 1))
    families = random.integers(0, 8, 200)
    peaks = (steps[:, 0] + 700) * np.exp(0.02 * random.standard_normal(200) + 0.005 * (families - 4))
    peaks[::10] *= 3  # rows that are wrong bend nothing
    model = MemoryRegressor(trained_on="a test").fit(steps, peaks, groups=families)
    assert model.model_.context_mib == pytest.approx(700, abs=100)
    told, deviations = model.predict(steps, return_std=True)
    inside = np.abs(np.log(peaks / told)) < deviations / told
    assert 0.5 < inside.mean() < 0.95


def test_published_steps_and_a_users_own_are_one_frame():
    published = published_frame(PUBLISHED_FOLDER / "observations.csv.gz")
    own = observed_frame(load_model().gpu_observations.steps)
    assert [*published.columns] == [*own.columns] == [*STEP_COLUMNS]
    assert (published.dtypes == own.dtypes).all()
    with pytest.raises(DataError, match="lacks gpu, batch_size"):
        checked_frame(published.drop(columns=["gpu", "batch_size"]), STEP_COLUMNS)
