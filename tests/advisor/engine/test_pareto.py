"""The front of price and rate holds every spec that nothing beats in both, and no other."""

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from advisor.domain import IMAGENET, DiskChoice, Task
from advisor.engine.judging import LEAST_SHARE, pareto_front
from advisor.engine.limits import GOOD_ENOUGH
from advisor.render.views.whole import thinned
from tests.builders import candidate, network_question, prediction

from .asking import CATALOG, SMALL, answered, every_spec
from .plain_model import PlainModel

points = st.lists(st.tuples(st.integers(1, 9), st.integers(1, 9), st.sampled_from([8, 16])))


questions = st.builds(
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


def specs(points):
    return [
        candidate(usd_per_hour=usd, batch_size=batch, prediction=prediction(rate, rate, rate))
        for usd, rate, batch in points
    ]


def beats(candidate, other):
    """At least as good in both, and better in one."""
    usd, others = candidate.spec.total_usd_per_hour, other.spec.total_usd_per_hour
    rate, slower = candidate.prediction.lower, other.prediction.lower
    return usd <= others and rate >= slower and (usd < others or rate > slower)


def usd_and_rate(candidate):
    return candidate.spec.total_usd_per_hour, candidate.prediction.lower


@given(points)
def test_the_front_is_what_nothing_beats(drawn):
    every = specs(drawn)
    front = pareto_front(every)
    unbeaten = {usd_and_rate(spec) for spec in every if not any(beats(other, spec) for other in every)}
    assert [usd_and_rate(candidate) for candidate in front] == sorted(unbeaten)


@given(questions)
def test_no_spec_that_may_be_bought_beats_one_of_the_front(request):
    answer = answered(replace(request, pareto=True))
    limit, target = request.max_usd_per_hour or 1e9, request.target_throughput or 0
    by_hand = [
        (usd, lower)
        for usd, lower, first in every_spec(request, PlainModel())
        if usd <= limit and lower >= target
        if request.task is not Task.TRAINING or 2 * first >= (target or lower)
    ]
    front = [usd_and_rate(candidate) for candidate in answer.pareto]
    chosen = answer.chosen
    for usd, rate in by_hand:
        is_near = rate >= LEAST_SHARE * chosen.prediction.lower
        is_near &= usd / rate <= chosen.spec.total_usd_per_hour / chosen.prediction.lower
        # The recommended spec stands there at its own batch, near its best.
        assert not is_near or any(p <= usd and r >= GOOD_ENOUGH * rate for p, r in front)
    assert chosen is None or usd_and_rate(chosen) in front
    assert bool(answer.pareto) == bool(answer.chosen)


@given(points, st.integers(2, 6))
def test_a_front_that_is_shown_in_part_keeps_its_ends(drawn, most):
    front = [
        {"total_usd_per_hour": candidate.spec.total_usd_per_hour, "name": candidate.spec.name}
        for candidate in pareto_front(specs(drawn))
    ]
    some = thinned(front, most)
    assert len(some) <= most
    assert [point for point in front if point in some] == some
    if front:
        assert (some[0], some[-1]) == (front[0], front[-1])
