"""Names and inputs of public tables in the words of the network table, and the table itself."""

import csv
import gzip
from pathlib import Path

import pandas as pd
import pytest

from advisor.infra.build.performance_sources.kernels import spread
from advisor.infra.build.performance_sources.naming import gpu_of, named, precision_of, stack_of, table_input
from advisor.infra.build.performance_sources.observations import COLUMNS, DEFAULT_PATH, NO_LICENCE
from tests.rows import table

KERNELS = Path(DEFAULT_PATH).with_name("kernels.csv.gz")


TABLES = table("built")


@pytest.mark.parametrize(("said", "meant"), TABLES["inputs"])
def test_inputs(said, meant):
    assert table_input(said) == meant


@pytest.mark.parametrize(("source", "name", "network"), TABLES["names"])
def test_names_of_networks(source, name, network):
    assert named(source, name).network == network


def test_a_network_of_two_windows_is_told_by_its_input():
    small, large = (named("swin-transformer", "Swin-B", f"{side}px") for side in (224, 384))
    assert small.network == "swin_base_patch4_window7_224"
    assert large.network == "swin_base_patch4_window12_384"


def test_words_of_the_fit():
    assert stack_of("eager (NVIDIA-tuned: channels_last)", "pytorch-ngc") == "ngc"
    assert stack_of("eager+xformers", "pytorch-1.13") == "eager"
    assert stack_of("no", "pytorch-ngc (fused, cuda graphs)") == "ngc-fused"
    assert (precision_of("tf32/fp32"), precision_of("amp? (not said)")) == ("fp32", "amp")
    assert gpu_of("Blackwell GPU (B200-SXM-180GB)") == "B200-SXM-180GB"
    assert gpu_of("NVIDIA Tesla T4") == "T4"


def test_the_committed_table_holds_licensed_steps_only():
    with gzip.open(DEFAULT_PATH, "rt", newline="") as file:
        rows = list(csv.DictReader(file))
    assert tuple(rows[0]) == COLUMNS
    assert len(rows) > 20_000
    assert all(row["licence"] and row["licence"] != NO_LICENCE for row in rows)
    assert all(float(row["step_seconds"] or 1) > 0 for row in rows)


def test_kernels_have_work_and_time():
    table = pd.read_csv(KERNELS)
    assert (table[["flops", "elements", "seconds"]] > 0).all().all()
    # No card of the table computes or copies a hundred times as fast as any that was built.
    assert (table.flops / table.seconds).max() < 3e15


def test_shapes_lie_far_apart():
    sizes = [2.0**power for power in range(16)]
    table = pd.DataFrame(dict.fromkeys(("flops", "elements", "reduction", "width"), sizes))
    assert {0, 15} <= set(spread(table, 4))
