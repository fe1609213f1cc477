"""The document fits its schema, a screen of 100 columns, and a trial's environment."""

import json
from pathlib import Path

import jsonschema
import pytest

import advisor.sweeps.probe
from advisor.render.text import table
from advisor.sweeps.probe import PARTS, fingerprint
from advisor.sweeps.probe.figures import skipped
from advisor.sweeps.probe.showing import headline, not_measured, sections
from tests.sweeps.probe.samples import document, gpu_part, measured, operations_part

SCHEMA = json.loads((Path(advisor.sweeps.probe.__file__).parent / "probe.schema.json").read_text())


def validate(found):
    jsonschema.validate(found, SCHEMA, cls=jsonschema.Draft202012Validator)


def test_a_machine_that_can_measure_nothing_has_a_valid_document():
    validate(document(**{name: skipped("not here") for name in PARTS}))


def test_a_gpu_machine_has_a_valid_document():
    validate(document(gpu=gpu_part(), operations=operations_part()))


@pytest.mark.parametrize(
    "broken", [{"gpu": {}}, {"gemm": {"cpu": {"fp32": {"value": 1.0}}, "cpu_threads": 2}}, {"tpu": {}}]
)
def test_a_figure_without_its_method_or_an_unknown_part_is_invalid(broken):
    with pytest.raises(jsonschema.ValidationError):
        validate(document(**broken))


def test_the_headline_names_the_gpus():
    assert headline(document(gpu=gpu_part())).endswith("8 GiB RAM; 1 x Tesla T4")
    assert headline(document(gpu=skipped("none"))).endswith("no GPU")
    assert headline(document()).endswith("GPU not asked for")


def test_tables_have_every_figure_and_are_narrow():
    found = document(gpu=gpu_part(), operations=operations_part())
    shown = {section.title: section for section in sections(found)}
    lines = [line for one in shown.values() for line in table(one.header, one.rows, one.right)]
    assert max(map(len, lines)) <= 98
    assert any("host to device pinned" in line for line in lines)
    assert ("sm clock mhz under load", "1590") in shown["GPU Tesla T4"].rows
    fp32 = shown["Layers on cuda, fp32, batch 64"].rows
    assert [row[:2] for row in fp32] == [("conv3x3", "wide"), ("pooling", "wide")]
    assert fp32[1][3] == "-"


def test_what_is_not_measured_is_told_once_a_reason():
    reasons = not_measured(document(gpu=skipped("no GPU"), operations=operations_part()))
    assert "gpu: no GPU" in reasons
    assert sum("CUDA out of memory" in line for line in reasons) == 1


def test_a_fingerprint_is_flat_and_leaves_out_what_is_missing():
    found = fingerprint(document(gpu=gpu_part(), gemm={"cuda": {"fp16": measured(65.0, "TFLOP/s")}}))
    assert found["figures"]["gemm.cuda.fp16"] == {"value": 65.0, "unit": "TFLOP/s"}
    assert "gpu.device_to_host.pageable" not in found["figures"]
    assert found["gpus"] == ["Tesla T4"]
    assert found["cpu_model"] == "A CPU"
    json.dumps(found)


def test_a_fingerprint_has_the_sizes_of_what_was_timed():
    """So that what a GPU's layers took can be told from what they compute."""
    product = measured(65.0, "TFLOP/s") | {"sizes": {"size": 8192}}
    operations = operations_part()
    operations["amp"]["conv3x3"]["wide"]["sizes"] = {"batch": 64, "side": 56}
    parts = {
        "gemm": {"cpu_threads": 4, "cuda": {"fp16": product, "bf16": skipped("no units")}},
        "operations": operations,
    }
    found = fingerprint(document(**parts))
    assert found["sizes"] == {
        "gemm.cuda.fp16": {"size": 8192},
        "operations.conv3x3.wide": {"batch": 64, "side": 56},
    }
    assert found["operations_device"] == "cuda"
    bare = fingerprint(document(gemm=skipped("no torch"), operations=skipped("no torch")))
    assert (bare["sizes"], bare["operations_device"]) == ({}, None)
