"""A question as a function of settings, and tuners that search over it."""

import math
import pickle
from itertools import product

import pytest

import advisor

NOTHING = {
    "answered": 0,
    "usd_per_hour": math.inf,
    "usd_per_million": math.inf,
    "throughput_lower": 0,
    "throughput_median": 0,
    "throughput_upper": 0,
}
ASKED = {"task": "training", "model": "resnet50"}
GRID = {"precision": ["fp32", "amp"], "batch_size": [16, 64]}


def test_an_objective_is_a_function_from_settings_to_figures_and_goes_to_other_processes():
    f = advisor.objective(**ASKED, target_throughput=500)
    chosen = advisor.recommend(**ASKED, target_throughput=500, precision="amp").recommendation
    figures = f({"precision": "amp"})
    assert figures["usd_per_hour"] == chosen.price.total_usd_per_hour
    assert figures["usd_per_million"] == pytest.approx(chosen.cost.usd_per_million_samples)
    assert f({"target_throughput": 5e7}) == NOTHING
    with pytest.raises(advisor.UsageError, match="'modle'"):
        advisor.objective(modle="resnet50")
    f = advisor.objective(**ASKED, target_throughput=400)
    assert pickle.loads(pickle.dumps(f))({"precision": "amp"}) == f({"precision": "amp"})


def test_a_named_instance_answers_where_its_lower_bound_meets_the_target():
    prediction = advisor.predict(**ASKED, instance="g5.xlarge")
    of_one = advisor.objective(**ASKED)({"instance": "g5.xlarge"})
    assert of_one["throughput_median"] == prediction.predicted.throughput.median
    lower = advisor.predict(**ASKED, instance="g5.xlarge").predicted.throughput.lower
    f = advisor.objective(**ASKED, instance="g5.xlarge")
    assert f({"target_throughput": lower - 1})["answered"] == 1
    assert f({"target_throughput": lower + 1}) == NOTHING
    assert f({"target_throughput": "1"})["answered"] == 1, "a text, as `recommend` takes it"


@pytest.mark.parametrize("task", [ASKED, {"task": "generation", "model": "llama-3.1-8b"}])
def test_an_instance_whose_price_nobody_knows_is_no_answer(task):
    unpriced = {**task, "instance": "p6-b300.48xlarge", "market": "spot"}
    assert advisor.predict(**unpriced).to_dict()["price"] is None
    assert advisor.objective()(unpriced) == NOTHING


@pytest.mark.parametrize(
    "settings",
    [
        {**ASKED, "instance": "g4dn.xlarge", "batch_size": 4096},
        {**ASKED, "instance": "c7i.xlarge", "precision": "amp"},
        {"task": "generation", "model": "meta-llama/Llama-3.1-8B", "users": 40, "instance": "g4dn.xlarge"},
        {
            "task": "finetuning",
            "model": "meta-llama/Llama-3.1-8B",
            "tokens": 1e8,
            "instance": "g4dn.xlarge",
            "method": "full",
        },
    ],
)
def test_an_instance_that_cannot_run_it_is_no_error_of_the_search(settings):
    assert advisor.objective()(settings) == NOTHING


@pytest.mark.parametrize(
    "wrong",
    [
        {"precision": "fp3"},
        {"instance": "g9.xlarge"},
        {"lr": 0.1},
        {"instance": "g5.xlarge", "target_throughput": -5},
        {"instance": "g5.xlarge", "target_throughput": "fast"},
    ],
)
def test_a_wrong_setting_stops_a_search(wrong):
    """No other configuration would mend it."""
    with pytest.raises(advisor.UsageError):
        advisor.objective(**ASKED)(wrong)


def _best():
    f = advisor.objective(**ASKED, target_throughput=400)
    every = [dict(zip(GRID, values, strict=True)) for values in product(*GRID.values())]
    priced = [(f(config)["usd_per_hour"], config) for config in every]
    return min(priced, key=lambda item: item[0])


@pytest.mark.slow
@pytest.mark.ray
@pytest.mark.timeout(600)
def test_ray_tune_finds_the_cheapest_of_a_grid(ray_cluster, tmp_path):
    pytest.importorskip("pyarrow")
    import ray
    from ray import tune

    ray.init(ray_cluster.address, log_to_driver=False)
    try:
        tuner = tune.Tuner(
            advisor.objective(**ASKED, target_throughput=400),
            param_space={name: tune.grid_search(values) for name, values in GRID.items()},
            tune_config=tune.TuneConfig(metric="usd_per_hour", mode="min"),
            run_config=tune.RunConfig(storage_path=str(tmp_path), verbose=0),
        )
        results = tuner.fit()
    finally:
        ray.shutdown()
    assert not results.errors
    best = results.get_best_result()
    assert (best.metrics["usd_per_hour"], best.config) == _best()
    assert {"answered", "throughput_lower"} <= set(best.metrics)
    assert any(path.name.startswith("advisor_objective") for path in tmp_path.iterdir())
