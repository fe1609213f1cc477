"""A sweep out of typed fields: the command's checks, and nothing of a client is run or opened."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from advisor.cli.questions import question_from
from advisor.cli.sweep import run as sweep_run
from advisor.errors import AdvisorError, UsageError
from advisor.questions.reading import from_values
from advisor.runs.jobs import requested_sweep, sweep_words
from advisor.runs.schedules import checked_sweep
from advisor.runs.sweep_questions import MOST_TRIALS, Allowed, NewSweep, SweepRun

GRID = {
    "networks": ["googlenet", "alexnet"],
    "tasks": "inference",
    "vcpus": [0.5, 1],
    "memory": "2GiB",
    "disks": ["gp3", "slow=20MiB/s,500iops"],
    "accelerator": "emulated:T4",
}
AWS = {**GRID, "accelerator": None, "on": "aws", "instance": "g4dn.xlarge", "budget": "1USD"}


def question_of(allowed=Allowed(), **changes):  # noqa: B008
    return requested_sweep(from_values(NewSweep, {**GRID, **changes}), allowed)


def test_fields_become_the_words_of_the_command_which_takes_them_as_the_same_answers():
    assert question_of().words == (
        "sweep",
        "run",
        "--networks=googlenet,alexnet",
        "--tasks=inference",
        "--vcpus=0.5,1",
        "--memory=2GiB",
        "--disks=gp3,slow=20MiB/s,500iops",
        "--accelerator=emulated:T4",
    )
    assert len(question_of().trials) == 2 * 2 * 2
    words = question_of(repeats=3, retry_failed=True, rel_error=0.05).words
    context = sweep_run.make_context("run", list(words[2:]))
    question = question_from(SweepRun, context.params)
    assert question.networks == ("googlenet", "alexnet")
    assert (question.repeats, question.retry_failed, question.rel_error) == (3, True, 0.05)
    assert sweep_words(question) == words


@pytest.mark.parametrize("network", ["net.py:build", "/etc/x.py", "../x", "X.PY:b", "a/b"])
def test_code_of_this_machine_is_never_named_by_a_client(network):
    with pytest.raises(UsageError, match="allow-code"):
        question_of(networks=["googlenet", network])


def test_data_go_by_their_allowed_names(tmp_path):
    with pytest.raises(UsageError, match="allow-data"):
        question_of(data=str(tmp_path))
    with pytest.raises(UsageError, match="did you mean photos"):
        question_of(Allowed(data={"photos": str(tmp_path)}), data="photo")


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"networks": "gogglenet"}, "did you mean googlenet"),
        ({"vcpus": [0]}, "above 0"),
        ({"vcpus": ["x" * 1000]}, "characters"),
        ({"vcpus": "1\n2"}, "characters"),
        ({"memory": ""}, "empty"),
        ({"vcpus": list(range(1, 102))}, "at most 100"),
        ({"vcpus": list(range(1, 99)), "memory": [f"{i}GiB" for i in range(1, 99)]}, "trials"),
        ({"executor": "inline"}, "process, ray"),
        ({"market": "spt"}, "spot"),
        ({"hours": 1}, "on aws"),
        ({"budget": "5USD"}, "adaptive"),
        ({"tasks": None}, "--tasks"),
        ({"disks": "--help"}, "disk type"),
    ],
)
def test_what_the_command_refuses_is_refused(changes, said):
    with pytest.raises(UsageError, match=said):
        question_of(**changes)


def test_a_sweep_on_aws_needs_a_budget_and_a_schedule_may_ask_for_more_than_this_machine_has():
    sweep = question_of(**AWS)
    assert sweep.question.on_aws
    assert sweep.question.budget.usd == 1.0
    assert sweep.words[-1].startswith("--owner=")
    with pytest.raises(UsageError, match="budget"):
        question_of(**{**AWS, "budget": None})
    sweep = from_values(NewSweep, {**GRID, "vcpus": 64})
    assert "--vcpus=64" in checked_sweep(sweep_words(sweep), sweep).words


@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None)  # the first one imports
@given(
    st.dictionaries(
        st.sampled_from([*GRID, "iterations", "repeats", "rel_error", "cache", "precision"]),
        st.one_of(
            st.text(max_size=20),
            st.floats(),
            st.integers(),
            st.lists(st.text(max_size=5)),
            st.sampled_from(["1GiB", "gp3", "googlenet", "warm,cold", "training"]),
        ),
        max_size=6,
    )
)
def test_whatever_is_asked_is_planned_or_refused_in_words(fields):
    try:
        result = question_of(**fields)
    except AdvisorError:
        return
    assert 0 < len(result.trials) <= MOST_TRIALS
    assert all(word.startswith("--") and "=" in word for word in result.words[2:])
