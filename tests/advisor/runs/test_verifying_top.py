"""The best types side by side: which one is taken, and when that is settled."""

from datetime import date

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from advisor.answers.context import Context
from advisor.catalog import load_catalog
from advisor.cli.verify import choice_lines, leave
from advisor.domain import ON_ANY_GPU, Task, Verdict, Workload
from advisor.errors import CloudError, MeasuringError, NoOfferError
from advisor.models.performance import load_model
from advisor.runs.verification.cloud import TopChoice, best_candidates
from advisor.runs.verification.verify import recommended_after
from tests.advisor.engine.plain_model import PlainModel
from tests.advisor.render.test_views import verification
from tests.builders import network_question
from tests.sweeps.builders import measurement, trial

CATALOG, TODAY = load_catalog(), date(2026, 11, 23)
CONTEXT = Context(CATALOG, PlainModel())
ASK = network_question(network="googlenet", task=Task.INFERENCE, target_throughput=300.0)
THREE = best_candidates(ASK, 3, CONTEXT, TODAY)
VERDICTS = st.sampled_from([*Verdict, None])


def choice(*verdicts):
    """Candidates with these verdicts, cheapest first; None has measured nothing."""
    tried = [
        replace(item, error=CloudError("no capacity"))
        if verdict is None
        else replace(item, verification=replace(verification(), verdict=verdict, settles=True))
        for item, verdict in zip(THREE, verdicts, strict=True)
    ]
    return TopChoice(request=ASK, tried=tuple(tried), spent_usd=0.4)


def test_the_candidates_are_types_of_the_answer_with_all_their_gpus_each_once_cheapest_first():
    assert len({candidate.name for candidate in THREE}) == 3
    assert [candidate.usd_per_hour for candidate in THREE] == sorted(
        candidate.usd_per_hour for candidate in THREE
    )
    assert all(candidate.planned.request.disk is not None for candidate in THREE)
    assert THREE[:1] == best_candidates(ASK, 1, CONTEXT, TODAY)
    # Each is planned with as many as its rate counts on.
    wide = replace(ASK, task=Task.TRAINING, target_throughput=1500.0, gpus=("T4", "L4"))
    result = best_candidates(wide, 2, CONTEXT, TODAY)
    for candidate in result:
        named = candidate.planned.named
        assert named.prediction.gpus_used == named.instance.gpu_count > 1
        assert candidate.planned.request.max_gpus is None
    with pytest.raises(NoOfferError):
        best_candidates(replace(ASK, target_throughput=1e12), 3, CONTEXT, TODAY)


@given(st.tuples(VERDICTS, VERDICTS, VERDICTS))
def test_the_cheapest_that_passed_is_taken_and_only_misses_settle_what_is_cheaper(verdicts):
    result = choice(*verdicts)
    first = verdicts.index(Verdict.PASS) if Verdict.PASS in verdicts else 3
    assert result.chosen is (result.tried[first] if first < 3 else None)
    assert result.settled == all(verdict is Verdict.MISSED for verdict in verdicts[:first])
    assert all(verdict.name in choice_lines(result) for verdict in result.tried)


def test_the_exit_tells_what_is_settled_and_what_was_measured_on_something_else_settles_nothing():
    leave(choice(Verdict.MISSED, Verdict.PASS, Verdict.UNDECIDED))
    with pytest.raises(NoOfferError):
        leave(choice(Verdict.MISSED, Verdict.MISSED, Verdict.MISSED))
    for undecided in ((None, Verdict.PASS, Verdict.PASS), (Verdict.UNDECIDED, *2 * [Verdict.MISSED])):
        with pytest.raises(MeasuringError):
            leave(choice(*undecided))
    result = choice(*3 * [Verdict.PASS])
    stands = replace(result.tried[0].verification, settles=False)
    first = replace(result.tried[0], verification=stands)
    assert replace(result, tried=(first, *result.tried[1:])).chosen is result.tried[1]


BUNDLED = load_model()
KNOWN = Context(CATALOG, BUNDLED)
ASKED = network_question(
    network="resnet50", task=Task.TRAINING, target_throughput=150.0, batch_size=32, region=None
)
WORKLOAD = Workload(network="resnet50", task=Task.TRAINING, batch_size=32)


def fresh(gpu="T4", cuda="Tesla T4", factor=1.5, **changes):
    """A trial whose GPU alone is so many times as slow as predicted."""
    seconds = factor * BUNDLED.published_step_seconds(WORKLOAD, CATALOG.gpus[gpu])
    planned = replace(trial(), workload=WORKLOAD, accelerator=ON_ANY_GPU, emulated_step_seconds=None, plan={})
    row = measurement(
        trial=planned,
        step_seconds=(2 * seconds,) * 20,
        stage_rates={"accelerator": 32 / seconds},
        environment={"gpu": cuda, "versions": {"torch": "2.13.0"}},
    )
    return replace(row, **changes)


def test_what_is_recommended_after_a_slow_step_is_not_what_was_before():
    unknown = fresh(cuda="no card")
    before, after = (
        recommended_after(ASKED, KNOWN, row, date(2026, 7, 21)) for row in (unknown, fresh(factor=4.0))
    )
    assert before.chosen is not None
    assert after.chosen is not None
    assert after.chosen.spec.total_usd_per_hour > before.chosen.spec.total_usd_per_hour
