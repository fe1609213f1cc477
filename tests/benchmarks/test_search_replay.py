"""The replay of a measured grid: planned against random trials."""

from benchmarks import search_replay
from tests.models.performance.surface.test_surface import grid
from tests.models.performance.synthetic import measure, true_parameters


def test_a_grid_is_told_by_a_few_planned_trials(monkeypatch):
    """Rates follow the physical form here; the figures that count need measured ones."""
    monkeypatch.setattr(search_replay, "_SEEDS", 2)
    monkeypatch.setattr(search_replay, "_MOST", 22)
    document = search_replay.score(measure(grid(), true_parameters(join__gamma=1.2)))
    assert document["cells"] == len(grid())
    assert document["planned_trials"] <= 14


def test_the_aim_is_reached_where_the_error_stays_within_it():
    """A lucky dip does not count."""
    assert search_replay._until_aim([(6, 0.04), (10, 0.08), (14, 0.04), (18, 0.03)]) == 14
    assert search_replay._until_aim([(6, 0.2)]) is None


def test_the_grid_has_720_cells():
    axes = (
        search_replay.GRID.networks, search_replay.GRID.batch_sizes, search_replay.GRID.vcpus,
        search_replay.GRID.memory_mib, search_replay.GRID.disks,
    )  # fmt: skip
    count = 1
    for axis in axes:
        count *= len(axis)
    assert count == 720
