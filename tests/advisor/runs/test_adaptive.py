"""A sweep that plans itself: the store is its state."""

import random
from datetime import UTC, datetime

import pytest
from msgspec.structs import replace

from advisor.domain import Accelerator, Status
from advisor.errors import UsageError
from advisor.runs.adaptive import adaptive_sweep, row_of, run_adaptive, surface_of, with_gpu_steps
from advisor.runs.fields import parse_budget
from advisor.runs.sweep_questions import SweepRun
from advisor.store.measurements import open_store
from advisor.sweeps.planning.plan import merged
from tests.models.performance.synthetic import measure, measurement, true_parameters
from tests.models.performance.test_surface import grid
from tests.sweeps.builders import AtOnce

# Trials of one batch do not know each other's endings.
_ONE_BATCH = 4


@pytest.fixture(scope="module")
def truth():
    return {row.trial.trial_id: row for row in measure(grid(), true_parameters())}


def played(sweep, truth, known=None, most=None):
    """What the sweep measures in order, and where it stands then."""
    rows, order = dict(known or {}), []
    while True:
        standing = sweep.status(rows)
        if not standing.next or (most is not None and len(order) >= most):
            return order, standing, rows
        for item in standing.next[: None if most is None else most - len(order)]:
            trial_id = item.trial.trial_id
            order.append((trial_id, item.run))
            rows[trial_id] = merged(rows.get(trial_id), truth[trial_id])


def test_a_budget_of_trials_is_never_exceeded_and_no_run_is_made_twice(truth):
    for budget in (3, 9):
        order, standing, _ = played(adaptive_sweep(grid(), parse_budget(f"{budget}trials")), truth)
        assert len(order) == len(set(order)) == budget
        assert "budget" in standing.stopped


def test_it_stops_by_its_own_rule_within_an_ample_budget(truth):
    order, standing, _ = played(adaptive_sweep(grid(), parse_budget("90trials")), truth)
    assert 12 <= len(order) < 60
    assert standing.doubt < 0.05
    assert "budget" not in standing.stopped


def on_a_real_gpu(trial):
    return replace(trial, accelerator=Accelerator.parse("cuda:T4"), emulated_step_seconds=None)


def measured_on_a_real_gpu(row):
    rate = row.trial.samples_per_step / row.trial.emulated_step_seconds
    facts = {"gpu": "Tesla T4", "versions": {"torch": "2.13.0"}}
    return replace(row, trial=on_a_real_gpu(row.trial), environment=facts, stage_rates={"accelerator": rate})


@pytest.mark.parametrize(
    ("is_real", "budget", "killed_after"),
    [(False, "14trials", 1), (False, "14trials", 5), (False, "14trials", 9), (True, "18trials", 9)],
)
def test_a_killed_sweep_goes_on_with_the_trials_of_an_undisturbed_one(truth, is_real, budget, killed_after):
    """Whatever was measured since, also where the rates of a real GPU are learnt meanwhile."""
    rows = truth
    if is_real:
        rows = {row.trial.trial_id: row for row in map(measured_on_a_real_gpu, truth.values())}
    trials = [row.trial for row in rows.values()]
    whole, standing, _ = played(adaptive_sweep(trials, parse_budget(budget)), rows)
    first, _, known = played(adaptive_sweep(trials, parse_budget(budget)), rows, most=killed_after)
    rest, _, _ = played(adaptive_sweep(trials, parse_budget(budget)), rows, known=known)
    assert set(first + rest) == set(whole)
    assert len(first) + len(rest) == len(whole)
    assert standing.doubt < 0.2


def test_a_trial_killed_for_memory_spares_those_that_need_as_much(truth):
    """Same work, no more memory, no fewer processes: they would die too."""
    sweep = adaptive_sweep(grid(), parse_budget("90trials"))
    dying = {
        trial_id: replace(row, status=Status.OUT_OF_MEMORY, step_seconds=())
        if row.trial.resources.memory_mib < 2000
        else row
        for trial_id, row in truth.items()
    }
    order, _, _ = played(sweep, dying)
    trials = [dying[trial_id].trial for trial_id, _ in order]
    died = [dying[trial_id].status is Status.OUT_OF_MEMORY for trial_id, _ in order]
    assert any(died)
    for index, killed in enumerate(trials):
        later = trials[index + _ONE_BATCH :] if died[index] else []
        assert not any(
            trial.workload == killed.workload
            and trial.resources.memory_mib <= killed.resources.memory_mib
            and trial.resources.vcpus >= killed.resources.vcpus
            for trial in later
        )


def test_trials_without_the_memory_to_live_are_never_proposed():
    small = [replace(trial, resources=replace(trial.resources, memory_mib=64.0)) for trial in grid()[:2]]
    sweep = adaptive_sweep([*grid(), *small], parse_budget("5trials"))
    assert list(sweep.refused) == small
    with pytest.raises(UsageError, match="memory"):
        adaptive_sweep(small, parse_budget("5trials"))


def test_a_target_asks_about_the_specs_that_are_sold(truth):
    """The bundled catalogue sells T4s; the answer's doubt is a regret."""
    sweep = adaptive_sweep(grid(), parse_budget("16trials"), target=300.0)
    assert len(sweep.specs.rows) > 10
    _, standing, _ = played(sweep, truth)
    assert standing.doubt is not None
    assert standing.stopped


def test_repeats_and_unknown_networks_are_refused():
    trial = grid()[0]
    with pytest.raises(UsageError, match="repeats"):
        adaptive_sweep([replace(trial, plan={"repeats": 3})], parse_budget("5trials"))
    own = replace(trial, workload=replace(trial.workload, network="mine"))
    with pytest.raises(UsageError, match="mine"):
        adaptive_sweep([own], parse_budget("5trials"))


def _noisy(row, **changes):
    """With steps that tell little."""
    drawn = random.Random(row.trial.trial_id)
    steps = tuple(row.step_seconds[0] * drawn.lognormvariate(0, 1.5) for _ in range(60))
    return replace(row, step_seconds=steps, **changes)


def test_an_attempt_that_neighbours_spoiled_is_no_repeat(truth):
    """Where noise rules, cells are measured again, three times at most; each of them really."""
    few = grid()[:13]
    orders = []
    for attempts in ((), ({"status": "contaminated"},)):
        rows = {name: _noisy(row, attempts=attempts) for name, row in truth.items()}
        order, _, _ = played(adaptive_sweep(few, parse_budget("24trials")), rows)
        assert max(run for _, run in order) == 3
        orders.append(order)
    assert len(orders[0]) == 24
    assert orders[0] == orders[1]


def test_repeats_in_vain_come_to_an_end(truth):
    few = grid()[:13]
    rows = {name: _noisy(row) for name, row in truth.items()}
    in_vain = tuple({"status": "contaminated"} for _ in range(3))
    sweep = adaptive_sweep(few, parse_budget("200trials"))
    while (standing := sweep.status(rows)).next:
        for item in standing.next:
            row = rows[item.trial.trial_id]
            rows[item.trial.trial_id] = replace(row, attempts=(*row.attempts, *in_vain))
    assert len(standing.done) <= 3 * len(few)
    assert "budget" not in standing.stopped


def test_the_first_trials_stay_the_same_on_whichever_cpu_one_was_measured(truth):
    """Nodes of a cluster differ; the trials that were measured already must count."""
    order, standing, rows = played(adaptive_sweep(grid(), parse_budget("10trials")), truth)
    other = {"cpu_model": "Intel(R) Xeon(R) Platinum 8259CL CPU @ 2.50GHz"}
    rows[order[-1][0]] = replace(rows[order[-1][0]], environment=other)
    again = adaptive_sweep(grid(), parse_budget("10trials")).status(rows)
    assert again.done[:6] == standing.done[:6]


class _Fake(AtOnce):
    def execute(self, trials):
        return (self.truth[row.trial.trial_id] for row in super().execute(trials))


@pytest.fixture
def fake(truth, monkeypatch):
    """What executes the trials; it notes which it was given."""
    fake = _Fake()
    fake.truth = truth
    monkeypatch.setattr("advisor.runs.sweeps.sweeping.ProcessExecutor", lambda _measure: fake)
    return fake


@pytest.fixture
def run(fake, tmp_path):
    """Runs a sweep with that budget on one store; where it stands then."""
    store = open_store(f"sqlite:///{tmp_path / 'm.sqlite'}")

    def run(budget, **more):
        sweep = adaptive_sweep(grid(), parse_budget(budget))
        shown = dict.fromkeys(("on_progress", "on_batch"), lambda _: None)
        question = SweepRun(preset="small", executor="process")
        return run_adaptive(sweep, question, store, **shown, **more)

    return run


def test_the_runner_measures_what_is_asked_and_nothing_twice(fake, run):
    """Run, and run again with more budget: the second goes on from the store."""
    assert len(run("7trials").done) == 7
    assert len(run("10trials").done) == 10
    assert len(fake.given) == 10
    again = run("10trials")
    assert len(fake.given) == 10
    assert "budget" in again.stopped


def test_what_is_older_than_asked_for_is_measured_anew(truth, fake, run):
    def measured(day, since=None):
        """How many trials a sweep on that day measures."""
        begun = f"2026-11-{day}T00:00:00+00:00"
        fake.truth = {name: replace(row, started_at=begun) for name, row in truth.items()}
        fake.given.clear()
        assert len(run("7trials", since=since).done) == 7
        return len(fake.given)

    tenth = datetime(2026, 11, 10, tzinfo=UTC)
    assert [measured("01"), measured("20"), measured("20", tenth)] == [7, 0, 7]
    assert measured("20", tenth) == 0


def test_a_time_budget_ends_between_batches(run):
    """The clock says that the first batch took all of it."""
    ticks = iter((0.0, 0.0, 4000.0, 8000.0))
    standing = run("1h", clock=lambda: next(ticks))
    assert len(standing.done) == 4
    assert "60 min" in standing.stopped


def test_a_gpu_step_that_was_measured_is_known_to_the_batches_after_it():
    """The cell takes most of what was measured, as do other batches of its network, and other
    networks some; what an emulated GPU took tells nothing."""
    trials = [on_a_real_gpu(trial) for trial in grid()]
    rows = [row_of(trial, "T4") for trial in trials]
    surface = surface_of(rows, ())
    names = [(trial.workload.network, trial.workload.batch_size) for trial in trials]
    location = names.index(("resnet50", 16))
    slow = 0.8 * rows[location].accelerator_rate
    facts = {"gpu": "Tesla T4", "versions": {"torch": "2.13.0"}}
    text = replace(measurement(trials[location], slow / 2, slow), environment=facts)
    after = with_gpu_steps(surface, rows, [text], "T4").trials.accelerator
    moved = dict(zip(names, (after / surface.trials.accelerator).tolist(), strict=True))
    assert 0.8 < moved["resnet50", 16] < 0.87
    assert 0.8 < moved["resnet50", 64] < 0.9
    assert moved["resnet50", 64] < moved["alexnet", 64] < 1
    emulated = measurement(grid()[location], slow / 2, slow)
    assert with_gpu_steps(surface, rows, [emulated], "T4") is surface
