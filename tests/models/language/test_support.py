"""Twenty facts about what runs where, each of which a calculator gets wrong."""

from typing import NamedTuple

import pytest

from advisor.catalog.load import load_catalog
from advisor.domain.generation import KvPrecision, LlmEngine, LlmPrecision
from advisor.models.language.configs import bundled_language_models
from advisor.models.language.support import supported, weight_only
from tests.rows import assert_each

BF16, FP16, FP8, INT4, NVFP4, MXFP4 = LlmPrecision
KV16, KV8 = KvPrecision.FP16, KvPrecision.FP8
VLLM, SGLANG, TRTLLM, LLAMA_CPP = LlmEngine


class Card(NamedTuple):
    name: str
    compute_capability: float
    vendor: str = "NVIDIA"


V100, T4, A100, A10G = Card("V100", 7.0), Card("T4", 7.5), Card("A100", 8.0), Card("A10G", 8.6)
L4, H100, B200 = Card("L4", 8.9), Card("H100", 9.0), Card("B200", 10.0)
PRO_6000, MI300X = Card("RTX PRO 6000", 12.0), Card("MI300X", 0.0, "AMD")
# What is asked, and a word of the reason; None where it runs.
FACTS = (
    (BF16, KV16, VLLM, T4, "no bf16"),
    (FP16, KV16, VLLM, T4, None),
    (BF16, KV16, LLAMA_CPP, V100, "no bf16"),
    (FP16, KV16, VLLM, V100, "starts at compute capability"),
    (FP16, KV16, LLAMA_CPP, V100, None),
    (FP16, KV16, TRTLLM, T4, "starts at compute capability"),
    (BF16, KV16, VLLM, A10G, None),
    (FP8, KV16, VLLM, A100, None),
    (FP8, KV16, TRTLLM, A100, "no kernels"),
    (FP8, KV16, TRTLLM, L4, None),
    (BF16, KV8, TRTLLM, A100, "fp8 keys and values"),
    (FP16, KV8, VLLM, T4, "fp8 keys and values"),
    (BF16, KV8, VLLM, H100, None),
    (NVFP4, KV16, TRTLLM, H100, "no kernels"),
    (NVFP4, KV16, VLLM, H100, None),
    (NVFP4, KV16, VLLM, T4, "no kernels"),
    (NVFP4, KV8, TRTLLM, B200, None),
    (MXFP4, KV16, VLLM, H100, None),
    (MXFP4, KV16, TRTLLM, H100, None),
    (MXFP4, KV16, TRTLLM, A100, "no kernels"),
    (MXFP4, KV16, VLLM, T4, "no kernels"),
    (INT4, KV16, VLLM, T4, None),
    (FP8, KV16, LLAMA_CPP, H100, "llama.cpp has no fp8"),
    (INT4, KV16, LLAMA_CPP, T4, None),
    (BF16, KV16, VLLM, MI300X, "NVIDIA's GPUs alone"),
)


def test_formats_run_where_they_do():
    """The table above."""

    def check(precision, kv_precision, engine, card, reason):
        found = supported(precision, kv_precision, engine, card)
        assert (found is None) if reason is None else (reason in str(found)), found

    assert_each(check, FACTS)


def test_formats_without_units_are_weight_only():
    """fp8 computes in 16 bits before Ada, 4-bit floats before Blackwell, 4-bit integers always."""
    cases = (
        (FP8, T4, True),
        (FP8, A100, True),
        (FP8, A10G, True),
        (FP8, L4, False),
        (FP8, H100, False),
        (NVFP4, H100, True),
        (NVFP4, B200, False),
        (NVFP4, PRO_6000, False),
        (MXFP4, H100, True),
        (MXFP4, B200, False),
        (INT4, B200, True),
        (BF16, T4, False),
    )

    def check(precision, card, expected):
        assert weight_only(precision, card) is expected

    assert_each(check, cases)


def test_mxfp4_on_llama_cpp_is_of_gpt_oss_alone():
    """GGUF has it for those experts."""
    models = bundled_language_models()
    gpt_oss, llama = models.find("gpt-oss-20b"), models.find("Llama-3.1-8B")
    assert supported(MXFP4, KV16, LLAMA_CPP, L4, gpt_oss) is None
    assert "no mxfp4" in str(supported(MXFP4, KV16, LLAMA_CPP, L4, llama))


def test_sheets_have_dense_rates_of_the_cards_that_clouds_rent():
    """An A10G has 70 TFLOP/s where an A10 has 125, a T4 has 65 and no bf16, a V100 no bf16; an
    H100's 989 are dense, not the 1,979 of sparse matrices."""
    gpus = load_catalog().gpus
    assert gpus["A10G"].bf16_tflops == 70
    assert gpus["A10"].bf16_tflops == 125
    assert gpus["T4"].fp16_tflops == pytest.approx(65.1, abs=0.1)
    assert gpus["T4"].bf16_tflops is None
    assert gpus["V100-SXM2-16GB"].bf16_tflops is None
    assert gpus["H100-SXM5-80GB"].bf16_tflops == pytest.approx(989.4)
