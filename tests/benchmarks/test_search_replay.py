"""The replay of a measured grid: planned against random trials."""

import pytest

from benchmarks import search_replay
from tests.models.performance.surface.test_surface import grid
from tests.models.performance.synthetic import measure, true_parameters


@pytest.fixture
def cells(monkeypatch):
    monkeypatch.setattr(search_replay, "_SEEDS", 2)
    monkeypatch.setattr(search_replay, "_MOST", 22)
    return search_replay.Grid.of(grid())


def test_a_grid_is_told_by_a_few_planned_trials(cells):
    """Rates follow the physical form here; the figures that count need measured ones."""
    rows = measure(cells.trials, true_parameters(join__gamma=1.2))
    document = search_replay.score(cells, search_replay.rates_of(cells, rows))
    assert document["cells"] == document["sample"] == len(cells.trials)
    assert document["planned_trials"] <= 14


def test_what_is_scored_was_not_tried_and_a_gap_in_the_sample_ends_it(cells):
    """Else the planner's own cells, or those that happened to work, would stand for all."""
    rates = dict.fromkeys(range(len(cells.trials)), 100.0)
    tried = cells.sample()[:8]
    others = cells.sample()[8:]
    wrong = rates | dict.fromkeys(tried[:1], 1e9)
    assert cells.error(tried[1:], wrong, others) == cells.error(tried[1:], rates, others)
    del rates[cells.sample()[40]]
    assert search_replay._complete(cells.sample(), rates) == cells.sample()[:40]


def test_the_planner_asks_again_only_after_its_trials_are_measured(cells):
    (anchors,) = cells.planned({})
    assert list(cells.planned({anchors[0]: 10.0})) == [anchors]


def test_a_table_gives_the_rates_that_were_written(cells, capsys, tmp_path):
    rows = measure(cells.trials, true_parameters())
    search_replay.print_table(rows)
    (tmp_path / "a.csv").write_text(capsys.readouterr().out)
    rates = search_replay.placed(cells, search_replay.read_table(tmp_path / "a.csv"))
    known = search_replay.rates_of(cells, rows)
    assert rates == pytest.approx(known, abs=0.01)


def test_the_aim_is_reached_where_the_error_stays_within_it():
    """A lucky dip does not count."""
    assert search_replay._until_aim([(6, 0.04), (10, 0.08), (14, 0.04), (18, 0.03)]) == 14
    assert search_replay._until_aim([(6, 0.2)]) is None


def test_the_grid_has_720_cells():
    axes = (
        search_replay.GRID.networks,
        search_replay.GRID.batch_sizes,
        search_replay.GRID.vcpus,
        search_replay.GRID.memory,
        search_replay.GRID.disks,
    )
    count = 1
    for axis in axes:
        count *= len(axis)
    assert count == 720
