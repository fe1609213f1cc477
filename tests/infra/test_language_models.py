"""The table of language models as it is built."""

import csv
import gzip
from pathlib import Path

import pandas as pd
import pytest

from advisor.infra.build.language_models import table
from advisor.infra.build.performance_sources.kernels import spread
from advisor.infra.build.performance_sources.naming import gpu_of, named, precision_of, stack_of, table_input
from advisor.infra.build.performance_sources.observations import COLUMNS as STEP_COLUMNS
from advisor.infra.build.performance_sources.observations import DEFAULT_PATH, NO_LICENCE
from advisor.models.language.configs import TABLE
from tests import rows

TABLES = rows.table("built")
LLAMA = TABLES["llama"]


@pytest.fixture
def built(tmp_path):
    """The lines of fetched rows, by their names."""

    def lines(*fetched):
        path = tmp_path / "model_configs.csv"
        header = table.FETCHED.read_text(encoding="utf-8").partition("\n")[0].split(",")
        with path.open("w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, header, restval="")
            writer.writeheader()
            writer.writerows([{**LLAMA, **row} for row in fetched])
        return {line["names"]: line for line in table.lines(path)}

    return lines


def test_the_bundle_is_what_is_built():
    """Byte for byte, of what is committed."""
    assert table.written(table.lines(table.FETCHED)) == TABLE.read_text(encoding="utf-8")


def test_a_slip_in_an_added_line_stops_the_build(built, tmp_path, monkeypatch):
    """The number of weights is held against the published one."""
    text = table.ADDED.read_text(encoding="utf-8").replace(",14336,131072,", ",15336,131072,", 1)
    broken = tmp_path / "added.csv"
    broken.write_text(text, encoding="utf-8")
    monkeypatch.setattr(table, "ADDED", broken)
    with pytest.raises(ValueError, match="published"):
        built()


# Names and inputs of public tables in the words of the network table, and the table itself.

KERNELS = Path(DEFAULT_PATH).with_name("kernels.csv.gz")


@pytest.mark.parametrize(("said", "meant"), TABLES["inputs"])
def test_inputs(said, meant):
    assert table_input(said) == meant


@pytest.mark.parametrize(("source", "name", "network"), TABLES["names"])
def test_names_of_networks(source, name, network):
    assert named(source, name).network == network


def test_names_in_the_words_of_the_fit_and_a_network_of_two_windows_by_its_input():
    assert stack_of("eager (NVIDIA-tuned: channels_last)", "pytorch-ngc") == "ngc"
    assert stack_of("eager+xformers", "pytorch-1.13") == "eager"
    assert stack_of("no", "pytorch-ngc (fused, cuda graphs)") == "ngc-fused"
    assert (precision_of("tf32/fp32"), precision_of("amp? (not said)")) == ("fp32", "amp")
    assert gpu_of("Blackwell GPU (B200-SXM-180GB)") == "B200-SXM-180GB"
    assert gpu_of("NVIDIA Tesla T4") == "T4"
    small, large = (named("swin-transformer", "Swin-B", f"{side}px") for side in (224, 384))
    assert small.network == "swin_base_patch4_window7_224"
    assert large.network == "swin_base_patch4_window12_384"


def test_the_committed_tables_hold_licensed_steps_kernels_with_work_and_time_and_shapes_far_apart():
    with gzip.open(DEFAULT_PATH, "rt", newline="") as file:
        rows = list(csv.DictReader(file))
    assert tuple(rows[0]) == STEP_COLUMNS
    assert len(rows) > 20_000
    assert all(row["licence"] and row["licence"] != NO_LICENCE for row in rows)
    assert all(float(row["step_seconds"] or 1) > 0 for row in rows)
    table = pd.read_csv(KERNELS)
    assert (table[["flops", "elements", "seconds"]] > 0).all().all()
    # No card of the table computes or copies a hundred times as fast as any that was built.
    assert (table.flops / table.seconds).max() < 3e15
    sizes = [2.0**power for power in range(16)]
    table = pd.DataFrame(dict.fromkeys(("flops", "elements", "reduction", "width"), sizes))
    assert {0, 15} <= set(spread(table, 4))
