"""The yield of second threads is found again in marks that were made with a known one."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from advisor.infra.build.catalog.second_threads import measured_servers, second_thread_yields

SIZES = (1, 2, 4, 8, 16)


def servers(second_thread, contention, maker="Intel"):
    scores, types = [], {}
    for cpu, threads, gain in (("whole", 1, 0.0), ("threaded", 2, second_thread)):
        for cores in SIZES:
            useful = cores * (1 + gain)
            mark = 2000 * 0.9 * useful / (1 + contention * (useful - 1))
            name = f"{cpu}.{cores}"
            types[name] = {"cores": str(cores)}
            scores.append(
                {
                    "server": name,
                    "cpu_model": f"{maker} {cpu}",
                    "vcpus": str(cores * threads),
                    "passmark_singlethread": "2000",
                    "passmark_cpu_mark": str(mark),
                }
            )
    return scores, types


@given(st.floats(0.0, 0.8), st.floats(0.0, 0.03))
def test_a_known_yield_is_found_again(second_thread, contention):
    found = second_thread_yields(measured_servers(*servers(second_thread, contention)))
    assert found == {"Intel threaded": pytest.approx(second_thread, abs=1e-6)}


def test_a_maker_without_single_threads_says_nothing():
    """Nothing to compare with: no figure rather than a wrong one."""
    scores, types = servers(0.3, 0.01)
    only = [row for row in scores if row["server"].startswith("threaded")]
    assert second_thread_yields(measured_servers(only, types)) == {}


def test_rows_without_marks_or_facts_are_left_out():
    scores, types = servers(0.3, 0.01)
    scores[0]["passmark_cpu_mark"] = "0"
    types.pop("whole.2")
    assert len(measured_servers(scores, types)) == len(scores) - 2
