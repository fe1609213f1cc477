"""What the instance must have, as typed: names, memory, compute capability, vCPUs, RAM."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from advisor.domain import ANY, IMAGENET, Range
from advisor.errors import UsageError
from advisor.models.performance.networks import bundled_networks
from advisor.quantities import parse_positive, parse_range
from advisor.questions.listings import HardwareFilter
from advisor.questions.reading import from_texts
from advisor.questions.values import GpuFilter, dataset_for, stored_as
from advisor.units import format_range


def wanted(text: str) -> GpuFilter:
    gpu = from_texts(HardwareFilter, {"gpu": [text]}).gpu
    assert gpu is not None
    return gpu


@pytest.mark.parametrize(
    ("text", "names", "memory", "capability"),
    [
        ("T4,L4", ("T4", "L4"), ANY, ANY),
        ("24GiB..", (), Range(24576), ANY),
        ("..24GiB", (), Range(None, 24576), ANY),
        ("16GiB..48GiB", (), Range(16384, 49152), ANY),
        ("cc8.0..", (), ANY, Range(8.0)),
        ("CC7.5..8.9", (), ANY, Range(7.5, 8.9)),
        ("cc7.5..cc8.9", (), ANY, Range(7.5, 8.9)),
        ("cc..9", (), ANY, Range(None, 9.0)),
        ("cc8.6", (), ANY, Range(8.6, 8.6)),
        ("A100, 40GiB.. ,cc8.0..,H100", ("A100", "H100"), Range(40960), Range(8.0)),
    ],
)
def test_a_gpu_is_asked_by_name_memory_and_capability(text, names, memory, capability) -> None:
    assert wanted(text) == GpuFilter(names, memory, capability)


@given(st.none() | st.integers(1, 500), st.none() | st.integers(1, 500))
def test_a_range_is_read_as_it_is_written(least, most) -> None:
    if (least, most) == (None, None) or (least and most and least > most):
        return
    limits = Range(least, most)
    written = format_range(limits, "{:g}".format)
    assert parse_range(written, lambda text: parse_positive(text, "it")) == limits


@given(st.floats(0.1, 100), st.none() | st.floats(0.1, 100), st.none() | st.floats(0.1, 100))
def test_a_range_holds_its_ends_and_what_lies_between(value, least, most) -> None:
    if least and most and least > most:
        return
    inside = (least or 0) <= value <= (most or 100)
    assert (value in Range(least, most)) is inside
    assert (None in Range(least, most)) is (least is None and most is None)


def test_a_data_set_is_named_by_its_network_and_taken_in_another_format():
    lmdb, tar = (stored_as(IMAGENET, name) for name in ("lmdb", "tar"))
    assert (lmdb.storage_format, lmdb.width, lmdb.height) == ("lmdb", 256, 256)
    assert lmdb.bytes_per_sample > 3 * 256 * 256
    assert 0 < tar.bytes_per_sample - IMAGENET.bytes_per_sample < 4096
    assert stored_as(IMAGENET, "files") == IMAGENET
    with pytest.raises(UsageError, match="is lmdb already"):
        stored_as(lmdb, "tar")
    networks = bundled_networks()
    assert dataset_for(None, networks["lstm_ptb_medium"]).name == "ptb"
    assert dataset_for(None, networks["bert-base-uncased"]).name == "tokens"
