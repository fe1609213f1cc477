"""The document fits its schema, a screen of 100 columns, and a trial's environment."""

from __future__ import annotations

import json
import statistics
from copy import deepcopy
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

import advisor.sweeps.probe
from advisor.render.text import table
from advisor.sweeps.probe import session as probing
from advisor.sweeps.probe.session import PARTS, fingerprint
from advisor.sweeps.probe.session import SCHEMA as FORM
from advisor.sweeps.probe.showing import headline, not_measured, sections
from tests import rows

SCHEMA = json.loads((Path(advisor.sweeps.probe.__file__).parent / "probe.schema.json").read_text())


def validate(result):
    jsonschema.validate(result, SCHEMA, cls=jsonschema.Draft202012Validator)


def test_a_machine_that_can_measure_nothing_has_a_valid_document():
    validate(document(**{name: probing.skipped("not here") for name in PARTS}))
    validate(document(gpu=gpu_part(), operations=operations_part()))


@pytest.mark.parametrize(
    "broken", [{"gpu": {}}, {"gemm": {"cpu": {"fp32": {"value": 1.0}}, "cpu_threads": 2}}, {"tpu": {}}]
)
def test_a_figure_without_its_method_or_an_unknown_part_is_invalid(broken):
    with pytest.raises(jsonschema.ValidationError):
        validate(document(**broken))


def test_the_headline_names_the_gpus_tables_have_every_figure_and_a_reason_is_told_once():
    assert headline(document(gpu=gpu_part())).endswith("8 GiB RAM; 1 x Tesla T4")
    assert headline(document(gpu=probing.skipped("none"))).endswith("no GPU")
    assert headline(document()).endswith("GPU not asked for")
    result = document(gpu=gpu_part(), operations=operations_part())
    shown = {section.title: section for section in sections(result)}
    lines = [line for entry in shown.values() for line in table(entry.header, entry.rows, entry.right)]
    assert max(map(len, lines)) <= 98
    assert shown["Measured: gpu"].rows[0][:2] == ("host to device, GB/s", "6.3")
    assert ("sm clock mhz under load", "1590") in shown["GPU Tesla T4"].rows
    layers = {row[0]: row[1:] for row in shown["Measured: operations"].rows}
    assert layers["fp32 conv3x3 wide backward"] == ("-", "1.5 ms", "100 GB/s", "8.1 TFLOP/s", "0.0%")
    assert layers["fp32 pooling wide forward"][3] == "-"
    reasons = not_measured(document(gpu=probing.skipped("no GPU"), operations=operations_part()))
    assert "gpu: no GPU" in reasons
    assert sum("CUDA out of memory" in line for line in reasons) == 1


def test_a_fingerprint_is_flat_leaves_out_what_is_missing_and_has_the_sizes_of_what_was_timed():
    """So that what a GPU's layers took can be told from what they compute."""
    result = fingerprint(document(gpu=gpu_part(), gemm={"cuda": {"fp16": measured(65.0, "TFLOP/s")}}))
    assert result["figures"]["gemm.cuda.fp16"] == {"value": 65.0, "unit": "TFLOP/s"}
    assert "gpu.device_to_host.pageable" not in result["figures"]
    assert result["gpus"] == ["Tesla T4"]
    assert result["cpu_model"] == "A CPU"
    json.dumps(result)
    product = measured(65.0, "TFLOP/s") | {"sizes": {"size": 8192}}
    operations = operations_part()
    operations["amp"]["conv3x3"]["wide"]["sizes"] = {"batch": 64, "side": 56}
    parts = {
        "gemm": {"cpu_threads": 4, "cuda": {"fp16": product, "bf16": probing.skipped("no units")}},
        "operations": operations,
    }
    result = fingerprint(document(**parts))
    assert result["sizes"] == {
        "gemm.cuda.fp16": {"size": 8192},
        "operations.conv3x3.wide": {"batch": 64, "side": 56},
    }
    assert result["operations_device"] == "cuda"
    bare = fingerprint(document(gemm=probing.skipped("no torch"), operations=probing.skipped("no torch")))
    assert (bare["sizes"], bare["operations_device"]) == ({}, None)


# Repeats are long enough, enough of them, and warm, on a clock that the test turns.


class Machine:
    """Calls take `seconds` of a clock of their own; the first one takes longer."""

    def __init__(self, seconds: float, first: float = 0.0) -> None:
        self.now, self.seconds, self.first, self.calls = 0.0, seconds, first, 0

    def call(self) -> None:
        self.now += self.first if self.calls == 0 else self.seconds
        self.calls += 1

    def clock(self) -> float:
        return self.now


def test_a_call_takes_what_it_takes_and_its_first_time_does_not_count():
    machine = Machine(0.001, first=5.0)
    times = probing.time_calls(machine.call, 0.5, clock=machine.clock)
    assert times == pytest.approx([0.001] * len(times))
    assert len(times) >= probing.LEAST_REPEATS


@given(st.floats(1e-4, 10), st.floats(0, 2))
def test_there_are_5_to_30_repeats_however_long_a_call_takes(call_seconds, seconds):
    """And a short call takes about the time that is asked for."""
    machine = Machine(call_seconds)
    assert 5 <= len(probing.time_calls(machine.call, seconds, clock=machine.clock)) <= 30
    machine = Machine(0.002)
    probing.time_calls(machine.call, 0.4, clock=machine.clock)
    assert 0.1 <= machine.now <= 0.5


def test_short_calls_are_bundled_until_the_clock_can_tell():
    machine, synchronized = Machine(1e-5), []
    synchronize = lambda: synchronized.append(machine.calls)  # noqa: E731
    times = probing.time_calls(machine.call, 0.1, synchronize=synchronize, clock=machine.clock)
    assert synchronized[-1] - synchronized[-2] >= 400
    assert statistics.median(times) == pytest.approx(1e-5)


def test_the_largest_size_that_fits_is_taken_and_no_larger_one_is_tried():
    tried = []

    def seconds_of(size):
        tried.append(size)
        return 1e-9 * size**3

    chosen = probing.largest_affordable((512, 1024, 2048, 4096), seconds_of, 20.0)
    assert chosen == 1024
    assert tried == [512, 1024]
    assert probing.largest_affordable((1, 2, 4), lambda _: 1e-9, 1.0) == 4


# Small documents.

TABLES = rows.table("sweeps")


def document(**parts: Any) -> dict[str, Any]:
    """A document as small as the schema allows."""
    expected = {"schema": FORM, "started_at": "2026-11-21T03:00:00+00:00", "quick": True, "seconds": 1.0}
    return expected | {"machine": TABLES["probed_machine"], "parts": parts, "warnings": []}


def measured(value: float, unit: str = "GB/s") -> dict[str, Any]:
    return probing.figure([value] * 5, unit, "a test")


def gpu_part() -> dict[str, Any]:
    return deepcopy(TABLES["probed_gpu"])


def operations_part() -> dict[str, Any]:
    return deepcopy(TABLES["probed_operations"])
