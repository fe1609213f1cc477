"""Throughput is an estimator of scikit-learn: it can be cloned, put in a pipeline and cross-validated."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import GroupKFold, cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from advisor.models.performance.networks import bundled_networks
from advisor.models.performance.throughput import ThroughputModel, trial_frame
from advisor.runs.fitting import reference_cpu
from tests.models.performance.synthetic import measure, trials, true_parameters


@pytest.fixture(scope="module")
def sweep():
    return trial_frame(measure(trials(), true_parameters()), bundled_networks(), reference_cpu)


def test_a_sweep_is_told_in_a_pipeline_by_configurations_it_has_not_seen(sweep):
    model = make_pipeline(FunctionTransformer(), ThroughputModel(calibrate=False))
    told = cross_val_predict(model, sweep, sweep["rate"], groups=sweep["configuration"], cv=GroupKFold(3))
    assert np.median(np.abs(told / sweep["rate"] - 1)) < 0.06
    assert clone(model).fit(sweep, sweep["rate"]).score(sweep, sweep["rate"]) > 0.95


def test_a_trial_on_a_cpu_that_came_later_is_told_by_its_mark(sweep):
    later = sweep.assign(cpu=2, score=2 * sweep["score"])
    model = ThroughputModel(calibrate=False).fit(sweep, sweep["rate"])
    host_bound = sweep["vcpus"] < 1
    assert (model.predict(later) >= model.predict(sweep))[host_bound].all()
