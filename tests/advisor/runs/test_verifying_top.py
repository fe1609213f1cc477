"""The best types side by side: which one is taken, and when that is settled."""

from __future__ import annotations

from datetime import date

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from advisor.catalog import load_catalog
from advisor.cli.verify_top import choice_lines, leave
from advisor.domain import Task, Verdict
from advisor.errors import CloudError, MeasuringError, NoOfferError
from advisor.runs.verification.top import TopChoice, best_candidates
from tests.advisor.engine.plain_model import PlainModel
from tests.advisor.render.test_views import verification
from tests.builders import network_question

CATALOG, MODEL, TODAY = load_catalog(), PlainModel(), date(2026, 11, 23)
ASK = network_question(network="googlenet", task=Task.INFERENCE, target_throughput=300.0)
THREE = best_candidates(ASK, 3, CATALOG, MODEL, TODAY)
VERDICTS = st.sampled_from([*Verdict, None])


def choice(*verdicts):
    """Candidates with these verdicts, cheapest first; None has measured nothing."""
    tried = [
        replace(one, error=CloudError("no capacity"))
        if verdict is None
        else replace(one, verification=replace(verification(), verdict=verdict, settles=True))
        for one, verdict in zip(THREE, verdicts, strict=True)
    ]
    return TopChoice(request=ASK, tried=tuple(tried), spent_usd=0.4)


def test_the_candidates_are_types_of_the_answer_each_once_cheapest_first():
    assert len({one.name for one in THREE}) == 3
    assert [one.usd_per_hour for one in THREE] == sorted(one.usd_per_hour for one in THREE)
    assert all(one.planned.request.disk is not None for one in THREE)
    assert THREE[:1] == best_candidates(ASK, 1, CATALOG, MODEL, TODAY)


def test_types_with_several_gpus_are_candidates_with_all_of_them():
    """Each is planned with as many as its rate counts on."""
    wide = replace(ASK, task=Task.TRAINING, target_throughput=1500.0, gpus=("T4", "L4"))
    found = best_candidates(wide, 2, CATALOG, MODEL, TODAY)
    for one in found:
        named = one.planned.named
        assert named.prediction.gpus_used == named.instance.gpu_count > 1
        assert one.planned.request.max_gpus is None


def test_no_candidate_is_taken_of_a_target_that_nothing_reaches():
    with pytest.raises(NoOfferError):
        best_candidates(replace(ASK, target_throughput=1e12), 3, CATALOG, MODEL, TODAY)


@given(st.tuples(VERDICTS, VERDICTS, VERDICTS))
def test_the_cheapest_that_passed_is_taken_and_only_misses_settle_what_is_cheaper(verdicts):
    found = choice(*verdicts)
    first = verdicts.index(Verdict.PASS) if Verdict.PASS in verdicts else 3
    assert found.chosen is (found.tried[first] if first < 3 else None)
    assert found.settled == all(one is Verdict.MISSED for one in verdicts[:first])
    assert all(one.name in choice_lines(found) for one in found.tried)


def test_the_exit_tells_what_is_settled():
    leave(choice(Verdict.MISSED, Verdict.PASS, Verdict.UNDECIDED))
    with pytest.raises(NoOfferError):
        leave(choice(Verdict.MISSED, Verdict.MISSED, Verdict.MISSED))
    for undecided in ((None, Verdict.PASS, Verdict.PASS), (Verdict.UNDECIDED, *2 * [Verdict.MISSED])):
        with pytest.raises(MeasuringError):
            leave(choice(*undecided))


def test_what_was_measured_on_something_else_settles_nothing():
    found = choice(*3 * [Verdict.PASS])
    stands = replace(found.tried[0].verification, settles=False)
    first = replace(found.tried[0], verification=stands)
    assert replace(found, tried=(first, *found.tried[1:])).chosen is found.tried[1]
