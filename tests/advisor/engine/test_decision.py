"""The cheapest spec whose lower bound meets the target, and nothing else, is recommended."""

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from advisor.catalog import Rejection, check, resources_of
from advisor.domain import IMAGENET, CacheState, DiskChoice, Task
from advisor.engine.candidates import disks_for, query_of, workloads_of
from advisor.errors import NoIntervalError, NoOfferError, UsageError
from tests.builders import network_question

from .asking import CATALOG, SMALL, answered, question
from .plain_model import PlainModel

requests = st.builds(
    network_question,
    network=st.just("googlenet"),
    task=st.sampled_from([Task.TRAINING, Task.INFERENCE]),
    target_throughput=st.one_of(st.none(), st.floats(min_value=1, max_value=20_000)),
    region=st.sampled_from(CATALOG.regions()),
    batch_size=st.one_of(st.none(), st.integers(1, 512)),
    dataset=st.sampled_from([IMAGENET, SMALL]),
    max_usd_per_hour=st.one_of(st.none(), st.floats(min_value=0.3, max_value=50)),
    min_gpu_memory_mib=st.one_of(st.none(), st.floats(min_value=8_000, max_value=90_000)),
    disk=st.sampled_from([None, DiskChoice(type="gp3"), DiskChoice(type="st1", size_gib=500.0)]),
    accelerated_only=st.just(True),
)


def ask(**changes):
    return answered(question(**{"accelerated_only": True, **changes}))


def by_brute_force(request):
    """(total price, lower) of every spec and batch size that may be bought and would run, and whose
    first epoch takes at most twice as long as one at the target."""
    model = PlainModel()
    for offer in CATALOG.offers(query_of(request)):
        gpu = CATALOG.gpu_of(offer.instance)
        verdict = check(offer.instance, gpu, needs_gpu=True, closed=offer.closed)
        if isinstance(verdict, Rejection) or offer.instance.memory_mib < 4096:
            continue
        try:
            disks = disks_for(request, CATALOG, offer.instance)
        except NoOfferError:  # the disk that is asked for has no known price there
            continue
        for disk in disks:
            resources = resources_of(CATALOG, offer, disk)
            for workload in workloads_of(request):
                if model.gpu_memory_mib(workload) <= gpu.memory_mib:
                    (prediction,) = model.predict([(workload, resources)], confidence=0.9)
                    (cold,) = model.predict([(workload, resources)], confidence=0.9, cache=CacheState.COLD)
                    pace = request.target_throughput or prediction.lower
                    if request.task is not Task.TRAINING or cold.lower >= pace / 2:
                        yield offer.price.usd_per_hour + disk.usd_per_hour, prediction


@given(requests)
def test_no_cheaper_spec_that_meets_the_target_is_passed_over(request):
    answer = answered(request)
    limit = request.max_usd_per_hour or float("inf")
    target = request.target_throughput or 0
    good = [
        (p, candidate) for p, candidate in by_brute_force(request) if candidate.lower >= target and p <= limit
    ]
    if answer.chosen is None:
        assert not good
    elif request.target_throughput is not None:
        assert answer.chosen.spec.total_usd_per_hour <= min(price for price, _ in good)
        assert answer.chosen.prediction.lower >= target
    else:
        cheapest = min(price / candidate.median for price, candidate in good)
        spec = answer.chosen.spec
        assert spec.total_usd_per_hour / answer.chosen.prediction.median <= cheapest / 0.95 + 1e-12


@given(requests)
def test_every_type_is_ranked_or_rejected_with_a_reason_and_never_both(request):
    answer = answered(replace(request, max_results=500))
    ranked = [candidate.spec.offer.instance.name for candidate in answer.ranked]
    rejected = [rejection.instance_type for rejection in answer.rejected]
    considered = {offer.instance.name for offer in CATALOG.offers(query_of(request))}
    assert len(set(ranked + rejected)) == len(ranked) + len(rejected)
    assert considered <= set(ranked + rejected)
    assert all(rejection.detail for rejection in answer.rejected)


def test_what_cannot_run_is_never_recommended_however_cheap():
    answer = ask(target_throughput=1)
    reasons = {rejection.instance_type: rejection.reason for rejection in answer.rejected}
    assert reasons["g4ad.xlarge"] == "unsupported"
    assert reasons["g5g.xlarge"] == "unsupported"
    assert reasons["p2.xlarge"] in ("not_offered", "unsupported")
    assert answer.chosen.spec.offer.instance.gpu_vendor == "NVIDIA"


def test_a_cheaper_type_that_is_too_slow_says_what_it_reaches_and_what_binds_it():
    answer = ask(target_throughput=1000)
    slow = next(rejection for rejection in answer.rejected if rejection.instance_type == "g4dn.xlarge")
    assert slow.reason == "too_slow"
    assert "240/s" in str(slow.detail)
    assert "decoding on the vCPUs" in str(slow.detail)


def test_preprocessing_needs_no_gpu_and_therefore_does_not_pay_for_one():
    answer = ask(task=Task.PREPROCESSING, target_throughput=400, accelerated_only=False)
    assert answer.chosen.spec.offer.instance.gpu_name is None
    burstable = {
        rejection.instance_type for rejection in answer.rejected if rejection.reason == "facts_missing"
    }
    assert "t3.medium" in burstable


def test_a_guess_is_refused_unless_it_is_allowed():
    guessing, limits = PlainModel(calibrated=False), {"target_throughput": 100, "accelerated_only": True}
    with pytest.raises(NoIntervalError, match="--allow-extrapolation"):
        answered(question(**limits), guessing)
    assert answered(question(**limits, allow_extrapolation=True), guessing).chosen is not None


def test_an_old_price_is_told():
    answer = ask(target_throughput=100)
    price = answer.chosen.spec.offer.price
    later = price.as_of + timedelta(days=price.max_age_days + 1)
    warned = map(str, answered(answer.request, today=later).warnings)
    age = f"{price.max_age_days + 1} days old"
    assert any(f"instance price is {age}" in warning for warning in warned)


def test_a_disk_that_an_instance_does_not_have_rejects_the_instance_and_not_the_question():
    answer = ask(target_throughput=100, disk=DiskChoice(type="instance_store", size_gib=100.0), dataset=SMALL)
    assert answer.chosen.spec.disk.rate.type == "instance_store"
    assert any(rejection.reason == "no_disk" for rejection in answer.rejected)


def test_unknown_names_are_usage_errors():
    """With near names, as everywhere."""
    with pytest.raises(UsageError, match=r"did you mean .*us-east-1"):
        ask(region="us-east-l")
    with pytest.raises(UsageError, match="unknown GPU"):
        ask(gpus=("T44",))
