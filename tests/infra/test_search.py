"""The search finds the cheapest configuration in few trials, and never wastes one."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from advisor.infra.build.search import Run, Table, propose, replay
from advisor.infra.build.search.tables import encoded

pytestmark = pytest.mark.vector

SIZES = tuple((float(nodes), kind) for nodes in (2, 4, 8, 16) for kind in ("c", "m", "r"))


def cost(nodes, kind, work, memory):
    """A job that is spread over nodes, and three times as dear where its data do not fit."""
    gib = nodes * {"c": 4, "m": 8, "r": 16}[kind]
    hours = work / nodes + 0.1
    price = nodes * {"c": 0.1, "m": 0.12, "r": 0.16}[kind]
    return hours * price * (1 if gib >= memory else 3)


def runs(workload, work, memory, fails_below=0.0):
    return [
        Run(workload, size, None if size[0] < fails_below else cost(*size, work, memory)) for size in SIZES
    ]


@pytest.fixture(scope="module")
def table():
    return Table.of(
        [
            *runs("small", 3.0, 10),
            *runs("large", 50.0, 100),
            *runs("similar", 40.0, 90),
            *runs("picky", 5.0, 20, fails_below=8),
        ]
    )


def test_a_workload_like_one_that_was_seen_is_solved_in_three_trials(table):
    """`similar` needs the memory that `large` needs: its history says where to look."""
    done = replay(table.problem("similar", table.workloads), table.outcome("similar"), trials=3, stops=False)
    assert done.steps[-1].regret < 0.05


def test_without_any_history_every_configuration_is_tried_at_most_once(table):
    done = replay(table.problem("large", ()), table.outcome("large"), trials=50, stops=False)
    assert sorted(step.index for step in done.steps) == list(range(len(SIZES)))
    assert done.stopped == "every configuration was tried"
    assert done.steps[-1].regret == pytest.approx(0)


def test_it_stops_by_its_own_rule_and_says_why(table):
    done = replay(table.problem("similar", table.workloads), table.outcome("similar"), trials=12)
    assert len(done.steps) < 12
    assert "expected to save less than" in done.stopped


def test_failures_lead_to_where_it_works(table):
    """Half of the configurations fail; the search does not stay among them."""
    done = replay(table.problem("picky", ("small", "large")), table.outcome("picky"), trials=6, stops=False)
    assert not math.isinf(done.steps[-1].regret)


@settings(max_examples=15)
@given(st.data())
def test_no_trial_is_proposed_twice_and_none_that_is_not_on_offer(data):
    """Whatever the trials so far gave."""
    table = Table.of([*runs("small", 3.0, 10), *runs("own", 9.0, 30)[:8]])
    problem = table.problem("own", table.workloads)
    outcome = st.one_of(st.none(), st.floats(-5, 5))
    trials = data.draw(st.dictionaries(st.integers(0, 7), outcome, max_size=8))
    proposal = propose(problem, trials, seed=data.draw(st.integers(0, 3)))
    if len(trials) == 8:
        assert proposal is None
        return
    assert proposal.index in set(range(8)) - set(trials)


def test_numbers_words_and_gaps_become_columns_and_repeats_count_by_their_median():
    """A column that never changes says nothing, and a word that is missing is no word."""
    result = encoded([(1.0, "a", None, 5.0), (100.0, "b", "x", 5.0), (10.0, "a", "x", 5.0)])
    assert result.tolist() == [[0, 1, 0, 0], [1, 0, 1, 1], [0.5, 1, 0, 1]]
    entry = ("a",)
    table = Table.of([Run("w", entry, cost) for cost in (1.0, 2.0, 90.0, None)])
    assert math.exp(table.log_cost[0, 0]) == pytest.approx(2.0)
    table = Table.of([Run("w", entry, cost) for cost in (1.0, None, None)])
    assert table.worked[0, 0] == 0
