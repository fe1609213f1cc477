"""Who pays reads the whole question: every limit."""

import copy

import pytest

from advisor.render.i18n.catalogue import LANGUAGES, report_texts
from advisor.render.sentences import asked_sentence
from tests.advisor.render.sizing.reports import golden_report

# What a question says, and how that is told.
LIMITS = {
    "precision": ("amp", "amp"),
    "batch_size": (77, "77"),
    "epochs": (90.0, "90 "),
    "samples": (1234567.0, "1,234,567"),
    "max_hours": (72.5, "72.5"),
    "max_run_usd": (61.25, "$61.25"),
    "max_usd_per_hour": (3.125, "$3.125"),
    "max_latency_ms": (505.0, "505"),
    "gpus": (["T4", "L4"], "T4, L4"),
    "min_gpu_memory_mib": (17 * 1024.0, "17 GiB"),
    "max_gpu_memory_mib": (81 * 1024.0, "81 GiB"),
    "compute_capability": ({"least": 8.6, "most": None}, "8.6.."),
    "vcpus": ({"least": 6.0, "most": 18.0}, "6..18"),
    "memory_mib": ({"least": None, "most": 33 * 1024.0}, "..33 GiB"),
    "max_gpus": (5, " 5 "),
    "max_count": (9, " 9 "),
    "max_nodes": (3, " 3 "),
    "disk": ("gp3:501GiB", "gp3:501GiB"),
    "disk_types": (["io2"], "io2"),
    "vcpu_quota": ({"G": 13}, "G=13"),
    "stack": ("compile", "compile"),
    "memory_format": ("channels_last", "channels_last"),
    "tf32": ("off", "TF32 off"),
    "protocol": ("bench", "bench"),
    "input": ("3x385x385", "3x385x385"),
    "price_kinds": (["list", "observed"], "list, observed"),
    "start_minutes": (19.0, "19 "),
    "required_confidence": (0.77, "77 "),
}


@pytest.fixture
def section():
    return copy.deepcopy(golden_report()["workloads"][1])


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_limit_that_was_asked_is_told(section, language):
    limits = {name: value for name, (value, _) in LIMITS.items()}
    section["recommendation"]["request"] |= limits | {"accelerated_only": True}
    sentence = asked_sentence(section, report_texts(language))
    assert [words for _, words in LIMITS.values() if words not in sentence] == []
    assert report_texts(language)("limit.accelerated_only", value="") in sentence


def test_every_field_of_a_question_is_told_or_stands_elsewhere(section):
    elsewhere = {"task", "model", "target_throughput", "confidence", "dataset"}
    elsewhere |= {"cloud", "region", "market", "horizon_hours", "max_results", "pareto"}
    elsewhere |= {"sample_input", "model_asked", "namesake"}
    sentences = {*LIMITS, "accelerated_only", "allow_extrapolation", "max_first_epoch_hours"}
    assert set(section["recommendation"]["request"]) == sentences | elsewhere
