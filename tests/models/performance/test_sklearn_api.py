"""What takes arrays keeps scikit-learn's conventions, and predicting never needs scikit-learn."""

from __future__ import annotations

import subprocess
import sys

import pytest


@pytest.mark.slow
@pytest.mark.parametrize("name", ["GaussianProcessEstimator", "MedianForestEstimator"])
@pytest.mark.filterwarnings("ignore")
def test_both_regressions_pass_scikit_learns_own_checks(name):
    from sklearn.utils.estimator_checks import check_estimator

    from models.performance import sklearn_api

    check_estimator(getattr(sklearn_api, name)())


def test_predicting_in_columns_imports_no_scikit_learn_scipy_or_pandas():
    """The product's path of prediction runs on NumPy alone."""
    code = (
        "import sys, numpy as np\n"
        "from advisor.domain import *\n"
        "from models.performance import load_model, paced_gpu\n"
        "from models.performance.resource_table import ResourceTable\n"
        "one = Resources(vcpus=8, physical_cores=4, memory_mib=32768,\n"
        "                disk=DiskRate(type='any'), gpu=paced_gpu('T4'))\n"
        "work = Workload(network='resnet50', task=Task.TRAINING, batch_size=32)\n"
        "load_model().predict_columns(work, ResourceTable.of([one] * 3))\n"
        "print([m for m in ('sklearn', 'scipy', 'pandas', 'torch') if m in sys.modules])\n"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"
