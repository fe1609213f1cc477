"""nvidia-smi's text in, facts out, whatever the driver's version leaves out."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from advisor.errors import MeasuringError
from sweeps.machine import nvidia_smi
from sweeps.machine.nvidia_smi import FACT_FIELDS, PACE_FIELDS, STATE_FIELDS, parse_query, query
from tests.sweeps.probe.samples import BANNER, QUERY_T4, STATE_RTX, UNKNOWN_FIELD


def test_every_gpu_becomes_its_facts_with_numbers_as_numbers():
    first, second = parse_query(QUERY_T4, list(FACT_FIELDS.values()))
    assert first["name"] == "Tesla T4"
    assert first["driver"] == "550.127.05"
    assert first["compute_capability"] == "7.5"
    assert (first["memory_mib"], first["max_pcie_generation"]) == (15360.0, 3.0)
    assert second["index"] == 1.0


def test_what_a_card_does_not_tell_is_none_not_zero():
    (state,) = parse_query(STATE_RTX, list(STATE_FIELDS.values()))
    assert state["power_watts"] is None
    assert state["sm_clock_mhz"] == 210.0
    (facts, _) = parse_query(QUERY_T4, list(FACT_FIELDS.values()))
    assert facts["mig_mode"] is None


def test_messages_are_no_gpus():
    assert parse_query("No devices were found\n", list(FACT_FIELDS.values())) == []


@given(st.text())
def test_any_text_is_parsed_without_an_error(text):
    for facts in parse_query(text, ["index", "name"]):
        assert set(facts) == {"index", "name"}


def test_a_field_that_an_old_driver_does_not_know_is_left_out():
    asked = []

    def old_driver(arguments):
        asked.append(arguments[0])
        return UNKNOWN_FIELD if "compute_cap" in arguments[0] else "0, Tesla K80\n"

    gpus = query(
        {"index": "index", "name": "name", "compute_cap": "compute_capability"}, old_driver
    )
    assert gpus == [{"index": 0.0, "name": "Tesla K80"}]
    assert len(asked) == 2


def test_a_refusal_that_never_ends_is_an_error():
    with pytest.raises(MeasuringError, match="refuses the field"):
        query({"index": "index"}, lambda _: UNKNOWN_FIELD)


@pytest.mark.parametrize(
    ("banner", "version"),
    [
        (BANNER, "12.4"),
        ("| Driver Version: 600.10   CUDA UMD Version: 13.1 |", "13.1"),
        ("NVIDIA-SMI has failed", None),
    ],
)
def test_the_drivers_cuda_version_stands_in_the_banner(banner, version):
    assert nvidia_smi.parse_cuda_version(banner) == version


def _install(folder, monkeypatch, script):
    program = folder / "nvidia-smi"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")


def test_a_driver_that_does_not_answer_is_told_in_its_own_words(tmp_path, monkeypatch):
    _install(tmp_path, monkeypatch, 'echo "couldn\'t communicate with the NVIDIA driver"; exit 9')
    with pytest.raises(MeasuringError, match="communicate with the NVIDIA driver"):
        query(FACT_FIELDS)


def test_a_real_process_that_refuses_a_field_is_asked_again(tmp_path, monkeypatch):
    refusal = """case "$1" in *compute_cap*)
        echo 'Field "compute_cap" is not a valid field to query.'; exit 2;; esac
        echo '0, Tesla K80'"""
    _install(tmp_path, monkeypatch, refusal)
    fields = {"index": "index", "compute_cap": "compute_capability", "name": "name"}
    assert query(fields) == [{"index": 0.0, "name": "Tesla K80"}]


def test_without_nvidia_smi_the_reason_is_told(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(MeasuringError, match="nvidia-smi is not installed"):
        query(FACT_FIELDS)


def test_what_holds_clocks_back_is_read_from_old_and_new_drivers():
    """Bits stay text; counters that a driver does not have are left out."""

    def driver(arguments):
        for field in arguments[0].removeprefix("--query-gpu=").split(","):
            if "_counters." in field:
                return f'Field "{field}" is not a valid field to query.\n'
        return "GPU-aa, 1410, 1215, 83, 250.3, 0x0000000000000020, 0x0000000000000020\n"

    (state,) = query(PACE_FIELDS, driver)
    assert state["held_back_bits"] == state["held_back_bits_now"] == "0x0000000000000020"
    assert state["sm_clock_mhz"] == 1410.0
    assert "driver_thermal_us" not in state
