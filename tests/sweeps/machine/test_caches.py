"""Caches as sysfs lists them, and what a trial on some CPUs has of them."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from advisor.sweeps.machine import caches


def test_cpu_lists_are_spans_and_single_numbers():
    assert caches.parse_cpu_list("0-2,8\n") == (0, 1, 2, 8)
    assert caches.parse_cpu_list("\n") == ()
    assert caches.parse_cpu_list("1-") == (1,)


@given(st.sets(st.integers(0, 500), max_size=40))
def test_every_list_of_single_cpus_comes_back(cpus):
    text = ",".join(map(str, sorted(cpus)))
    assert caches.parse_cpu_list(text) == tuple(sorted(cpus))


@pytest.mark.parametrize("text", ["a", "1,,x"])
def test_nonsense_is_no_cpu_list(text):
    with pytest.raises(ValueError, match="invalid literal"):
        caches.parse_cpu_list(text)


@pytest.mark.parametrize(("text", "kib"), [("32K\n", 32), ("16M", 16384), ("1G", 1048576)])
def test_sizes_of_caches_have_a_unit(text, kib):
    assert caches.parse_size_kib(text) == kib


def test_a_size_without_its_unit_is_refused():
    with pytest.raises(ValueError, match="size of a cache"):
        caches.parse_size_kib("32")


def _cache(root: Path, cpu: int, index: int, **files: str) -> None:
    place = root / f"cpu{cpu}" / "cache" / f"index{index}"
    place.mkdir(parents=True)
    for name, text in files.items():
        (place / name).write_text(text + "\n")


def test_shared_caches_are_counted_once(tmp_path):
    for cpu in range(4):
        l1 = {"level": "1", "type": "Data", "size": "32K", "shared_cpu_list": f"{cpu}"}
        l3 = {"level": "3", "type": "Unified", "size": "16M"}
        _cache(tmp_path, cpu, 0, **l1)
        _cache(tmp_path, cpu, 3, **l3, shared_cpu_list="0-1" if cpu < 2 else "2-3")
    counts = {cache.level: n for cache, n in caches.distinct_caches(range(4), tmp_path).items()}
    assert counts == {1: 4, 3: 2}
    assert caches.last_level_cache_mib(range(4), tmp_path) == 32.0


def test_a_machine_that_describes_no_caches_has_none(tmp_path):
    assert caches.distinct_caches([0], tmp_path) == {}
    assert caches.last_level_cache_mib([0], tmp_path) == 0.0


def test_a_trial_on_one_cpu_has_the_cache_that_others_share(tmp_path):
    for cpu in range(4):
        files = {"level": "3", "type": "Unified", "size": "16M"}
        _cache(tmp_path, cpu, 3, **files, shared_cpu_list="0-1" if cpu < 2 else "2-3")
    one, all_of_them = (caches.carved_from(cpus, tmp_path) for cpus in ([1], range(4)))
    assert (one["last_level_cache_mib"], one["last_level_cache_cpus"]) == (16.0, 2)
    assert (all_of_them["last_level_cache_mib"], all_of_them["last_level_cache_cpus"]) == (32.0, 4)
