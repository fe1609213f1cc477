"""The search suite on made tables: format, split and baselines."""

from __future__ import annotations

import itertools

import pytest

from benchmarks.accuracy import search
from benchmarks.accuracy.figures import NothingToScore

HEADER = "workload,nodes,instance,elapsed_time_s,completed\n"


def scout(folder, workloads):
    lines = [
        f"{name},{nodes},{instance},{work / nodes * (3 if instance[0] == slow else 1) + 60},"
        f"{not (instance == 'c4.large' and nodes < 8)}"
        for (name, work, slow), nodes, instance in itertools.product(
            workloads, (4, 8, 16), ("c4.large", "m4.large", "r4.large", "c4.xlarge")
        )
    ]
    place = folder / "cloudconfig"
    place.mkdir(parents=True)
    (place / "scout_multi_node.csv").write_text(HEADER + "\n".join(lines) + "\n")
    return folder


WORKLOADS = (("a", 4000, "c"), ("b", 5000, "c"), ("d", 3000, "m"))


@pytest.fixture
def small(monkeypatch):
    monkeypatch.setattr(search, "_SEEDS", 1)
    monkeypatch.setattr(search, "_VARIANT_SEEDS", 1)
    monkeypatch.setattr(search, "_RANDOM_SEEDS", 3)


@pytest.mark.slow
def test_each_workload_is_searched_with_the_others_as_history(tmp_path, small):
    folder = scout(tmp_path, WORKLOADS)
    document = search.run(folder, folder).as_document()
    assert document["n"] == 3
    assert [one["name"] for one in document["baselines"]] == ["gp_ei", "random"]
    assert document["within_5_percent"]["search"]["10"] == 100
    assert set(document["by_source"]) == {"scout"}


@pytest.mark.slow
def test_rows_of_another_folder_are_searched_with_those_of_the_first(tmp_path, small):
    train = scout(tmp_path / "one", WORKLOADS)
    score = scout(tmp_path / "two", (("new", 4500, "c"),))
    assert search.run(train, score).as_document()["n"] == 1
    cases = list(search._cases(train, score, []))
    assert cases[0].history == ("a", "b", "d")


def test_a_workload_is_never_its_own_history(tmp_path):
    train = scout(tmp_path / "one", WORKLOADS)
    score = scout(tmp_path / "two", (("a", 4000, "c"),))
    assert [case.history for case in search._cases(train, score, [])] == [("b", "d")]


def test_a_folder_without_tables_is_nothing_to_score(tmp_path):
    with pytest.raises(NothingToScore):
        search.run(tmp_path, tmp_path)
