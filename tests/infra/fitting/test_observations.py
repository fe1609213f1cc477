"""Rows of measured steps are read as they were run; what nobody knows is counted by name."""

import csv
import gzip

import pytest

from advisor.catalog import load_catalog
from advisor.errors import DataError
from advisor.infra.build.fitting.observations import (
    OBSERVATIONS,
    columns,
    conditions_of,
    era_of,
    question_conditions,
    read_observations,
    torch_version,
)
from advisor.infra.build.performance_sources.observations import COLUMNS
from advisor.models.performance import paced_gpu
from advisor.models.performance.network_table import network_table

# A line of the table.
LINE = "someone,resnet50,training,eager,pytorch-2.1,,,fp32,conv,T4,1,32,3x224x224,0.3,,,,1,MIT"
ROW = dict(zip(COLUMNS, LINE.split(","), strict=True))


@pytest.mark.parametrize(
    ("framework", "version", "era"),
    [
        ("pytorch-1.12", 1.12, "1.late"),
        ("pytorch-1.8", 1.08, "1.old"),
        ("pt112", 1.12, "1.late"),
        ("pytorch-1.10", 1.10, "1.late"),
        ("pytorch-2.0", 2.0, "2.0"),
        ("pytorch-2.1", 2.01, "2.0"),
        ("pt210", 2.10, ""),
        ("pytorch-2.9.1", 2.09, ""),
        ("nobody said", None, ""),
    ],
)
def test_versions_sort_and_have_an_age(framework, version, era):
    """2.10 is younger than 2.9, and what is kept up today needs no word."""
    assert torch_version(framework) == pytest.approx(version)
    assert era_of(torch_version(framework)) == era


def read(tmp_path, *changes):
    with gzip.open(tmp_path / OBSERVATIONS, "wt", newline="") as file:
        writer = csv.DictWriter(file, ROW)
        writer.writeheader()
        writer.writerows({**ROW, **change} for change in changes)
    return read_observations(tmp_path, load_catalog().gpus, network_table())


def test_unknown_names_are_counted_and_left_out(tmp_path):
    rows, unknown = read(
        tmp_path, {}, {"network": "no_such_net"}, {"network": "no_such_net"}, {"gpu": "No Such Card"}
    )
    assert len(rows) == 1
    assert dict(unknown.networks) == {"no_such_net": 2}
    assert dict(unknown.gpus) == {"No Such Card": 1}


@pytest.mark.parametrize(
    "change",
    [{"fit": "0"}, {"step_seconds": ""}, {"gpu_count": "2"}, {"precision": "int8"}, {"source": "paddleclas"}],
)
def test_rows_that_may_not_be_fitted_are_not(tmp_path, change):
    rows, unknown = read(tmp_path, change)
    assert rows == []
    assert not unknown.networks
    assert not unknown.gpus


def test_a_row_says_how_it_ran(tmp_path):
    (row,), _ = read(tmp_path, {"sigma": "0.24", "memory_format": "channels_last"})
    how = row.cell.step.conditions
    assert (row.cell.network, row.seconds, row.is_pytorch) == ("resnet50", 0.3, True)
    assert row.sigma == pytest.approx(0.25)  # its own error, and what sources scatter by
    assert (how.gpu.name, how.memory_format, how.tf32) == ("T4", "channels_last", "convolutions")
    assert row.cell.step.batch_size == 32
    _, logs, sigmas = columns([row])
    assert logs[0] == pytest.approx(-1.204, abs=1e-3)
    assert sigmas[0] == row.sigma


@pytest.mark.parametrize(
    ("change", "unfused"),
    [
        ({}, False),
        ({"framework": "pytorch-1.12"}, True),
        ({"variant": "attention=eager"}, True),
        ({"stack": "mxnet", "framework": "mxnet-1.2"}, True),
    ],
)
def test_old_software_has_no_fused_attention(change, unfused):
    assert conditions_of({**ROW, **change}, paced_gpu("T4")).unfused_attention is unfused


def test_a_user_asks_without_a_source_or_a_host(tmp_path):
    """Whatever a publisher did in its step, a prediction is of a whole step in PyTorch."""
    rows, _ = read(
        tmp_path,
        {"source": "pytorch-gpu-benchmark", "host": "h"},
        {"stack": "compile"},
        {"stack": "torchscript"},
    )
    assert rows[0].cell.step.conditions.copies_input
    hows = [question_conditions(row.cell.step.conditions) for row in rows]
    assert [one.stack for one in hows] == ["eager", "compile", "eager"]
    assert all(one.source == one.host == "" and one.optimizer for one in hows)
    assert not any(one.copies_input for one in hows)
    assert question_conditions(hows[0]) == hows[0]


def test_a_checkout_without_its_table_says_where_it_belongs(tmp_path):
    with pytest.raises(DataError, match="part of a checkout"):
        read_observations(tmp_path, load_catalog().gpus, network_table())
    (tmp_path / OBSERVATIONS).write_bytes(b"no gzip")
    with pytest.raises(DataError, match="cannot be read"):
        read_observations(tmp_path, load_catalog().gpus, network_table())
