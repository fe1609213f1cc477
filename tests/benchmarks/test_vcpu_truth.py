"""Calibration against measured servers: what the host stage must reproduce, with room to spare."""

from __future__ import annotations

import pytest

from benchmarks.vcpu_truth import document

pytestmark = pytest.mark.slow  # every draw of the calibration is made anew


@pytest.fixture(scope="module")
def calibration():
    return document()


def by_name(rows):
    return {row["name"]: row for row in rows}


def test_instances_and_second_threads_follow_from_whole_cores(calibration):
    """Small x86 instances within 11 % on average, and better than any simpler yield."""
    ours = by_name(calibration["instances_from_whole_cores_of_another_cpu"])["x86, up to 16 cores"]
    assert ours["n"] > 400
    assert ours["mape_percent"] < 11
    assert ours["median_percent"] < 7
    for baseline in calibration["instances_baselines_up_to_16_cores"]:
        assert ours["mape_percent"] < baseline["mape_percent"]
    curves = by_name(calibration["thread_curves"])
    assert curves["second threads from all cores, slow dividers"]["mape_percent"] < 6
    assert curves["from one thread, up to 8 cores, slow dividers"]["mape_percent"] < 5
    switched = by_name(calibration["second_threads_switched_on"])
    assert switched["usual yield"]["mape_percent"] < 6
    assert switched["usual yield"]["mape_percent"] < switched["no yield"]["mape_percent"]


def test_the_doubts_of_the_product_are_those_that_were_measured(calibration):
    from advisor.models.performance import estimates
    from advisor.models.performance.machines import (
        OTHER_ARCHITECTURE_SIGMA,
        SECOND_THREAD_SIGMA,
        USUAL_SECOND_THREAD_YIELD,
    )
    from advisor.runs.fitting import KNOWN_SIGMA

    spreads = calibration["spreads"]
    assert pytest.approx(spreads["cpu_speed"]["x86_64_log_sigma"], abs=0.02) == KNOWN_SIGMA
    yields = spreads["second_thread_yield"]
    assert pytest.approx(yields["median"], abs=0.01) == USUAL_SECOND_THREAD_YIELD
    assert pytest.approx(yields["log_sigma"], abs=0.02) == SECOND_THREAD_SIGMA
    doubling = spreads["per_doubling_of_cores"]["log_sigma"]
    assert pytest.approx(doubling, abs=0.01) == estimates._PER_DOUBLING_OF_VCPUS_SIGMA
    shift = abs(spreads["cpu_speed"]["between_architectures_log_shift"])
    assert pytest.approx(shift, abs=0.02) == OTHER_ARCHITECTURE_SIGMA
