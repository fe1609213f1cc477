"""The score of shipped prices: what is the same, what is off, what is missing."""

from __future__ import annotations

import pytest

from advisor.catalog import load_catalog
from benchmarks.prices import errors, read_rows, rows_scored

LINES = """provider,type,region,market,usd,date
aws,p5.48xlarge,us-east-1,on-demand,55.04,2026-08-22
aws,g4dn.xlarge,us-east-1,on-demand,0.6,2026-08-22
aws,g5.xlarge,us-east-1,on-demand,2,2020-01-01
aws,c8i.large,eu-west-1,on-demand,0.10,2026-08-22
aws,g4dn.xlarge,us-east-1,commitment-3y-convertible,0.273,2026-08-22
aws,z99.large,us-east-1,on-demand,1,2026-08-22
"""


def test_unseen_rows_are_scored_by_market_and_kind(tmp_path):
    """A list price is off where a newer list has another; an unknown type is missing."""
    rows = tmp_path / "rows.csv"
    rows.write_text(LINES)
    scores = rows_scored(load_catalog(), read_rows(rows))
    listed = scores["aws on-demand list"]
    assert (listed["n"], listed["same"], listed["listed_off"]) == (3, pytest.approx(1 / 3, abs=1e-3), 1)
    assert scores["aws on-demand estimated"]["n"] == 1
    assert scores["aws commitment-3y-convertible list"]["same"] == 1
    assert scores["missing"] == {"aws on-demand": 1}


def test_errors_are_relative_to_the_true_price():
    """A price of 1 where 0.5 is true is 100 % off."""
    assert errors([0.5, 1.0, 1.0]) == {
        **{"n": 3, "same": pytest.approx(0.6667), "p50": 0},
        **{"p90": pytest.approx(0.8), "p99": pytest.approx(0.98), "max": 1},
    }
