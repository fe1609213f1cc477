"""Tuning language models: what must hold of memory and rates, whatever the model."""

import json
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from advisor.domain.words import LlmMethod
from advisor.errors import DataError
from advisor.infra.build.fitting.files import write_tuning
from advisor.infra.build.fitting.tuning import fitted, measured_rows, run_of
from advisor.infra.build.language_sources.rows import TRAINING_PATH, TrainingRow, read_table
from advisor.infra.build.language_sources.sheets import bundled_gpu_facts
from advisor.models.language.configs import bundled_language_models
from advisor.models.language.finetuning.belief import parts_of
from advisor.models.language.finetuning.memory import finetuning_memory
from advisor.models.language.finetuning.predictor import (
    bundled_finetuning_predictor,
    least_memory,
    read_predictor,
    unsupported,
)
from advisor.models.language.finetuning.tuning import Checkpointing, FineTuning, Run, Sharding, work_of
from advisor.models.language.memory import card_gib

MODELS = (
    "meta-llama/Llama-3.1-8B",
    "Qwen/Qwen3-30B-A3B",
    "Qwen/Qwen2.5-7B",
    "meta-llama/Llama-3.2-1B",
    "deepseek-ai/DeepSeek-V3",
)
# What is chosen where it is left open.
OPEN = {"micro_batch": None, "checkpointing": None, "sharding": None}
GPUS = ("H100-SXM5-80GB", "A100-SXM4-80GB", "L4", "A10G", "L40S", "B200-SXM-180GB")


def tuning(model="meta-llama/Llama-3.1-8B", gpu="H100-SXM5-80GB", **changes):
    """LoRA of 2,048 tokens on one GPU, four sequences at once, everything checkpointed."""
    usual = FineTuning(
        model=bundled_language_models().find(model),
        method=LlmMethod.LORA,
        sequence=2048,
        micro_batch=4,
        gpu=bundled_gpu_facts()[gpu],
        checkpointing=Checkpointing.FULL,
        sharding=Sharding.NONE,
    )
    return usual._replace(**changes)


@pytest.fixture(scope="module")
def rows():
    return read_table(TrainingRow, TRAINING_PATH)


def median(*tunings):
    return bundled_finetuning_predictor().tokens_per_second(tunings).tokens_per_second.median


@settings(max_examples=60, deadline=None)
@given(
    st.builds(
        tuning,
        st.sampled_from(bundled_language_models().names()),
        method=st.sampled_from(tuple(LlmMethod)),
        checkpointing=st.sampled_from(tuple(Checkpointing)),
        gpus=st.sampled_from((1, 2, 8)),
        sequence=st.integers(16, 32768),
        micro_batch=st.integers(1, 64),
    ),
    st.floats(0.55, 0.99),
)
def test_no_gpu_tunes_faster_than_it_computes_and_reads(entry, confidence):
    """6 operations of a weight that a token uses, 4 where it is frozen, within the 16-bit peak."""
    if entry.gpus > 1:
        entry = entry._replace(link="nvlink", sharding=Sharding.ALL)
    gpus = tuple(bundled_gpu_facts().values())
    rates = bundled_finetuning_predictor().tokens_per_second(
        [entry._replace(gpu=gpu) for gpu in gpus], confidence
    )
    used = entry.model.active_parameters
    read = 2 * (0.5 if entry.method == LlmMethod.QLORA else 2.0) * used / (entry.sequence * entry.micro_batch)
    passes = 6 if entry.method == LlmMethod.FULL else 4
    for bound in rates.tokens_per_second:
        for gpu, rate in zip(gpus, (bound / entry.gpus).tolist(), strict=True):
            assert rate * passes * used <= gpu.tflops * 1e12 * (1 + 1e-9)
            assert rate * read <= gpu.bandwidth_gb_s * 1e9 * (1 + 1e-9)


models, methods = st.sampled_from(MODELS), st.sampled_from(tuple(LlmMethod))


def tunings(gpus, **drawn):
    """Tunings of those models on so many GPUs with NVLink; what is drawn beside it comes by name."""
    same = {
        "model": models,
        "sharding": st.sampled_from((Sharding.NONE, Sharding.ALL)),
        "checkpointing": st.sampled_from(tuple(Checkpointing)),
    }
    return st.builds(tuning, gpus=st.just(gpus), link=st.just("nvlink"), **(same | drawn))


@given(tunings(4, sequence=st.integers(256, 32768), micro_batch=st.integers(1, 8)))
def test_adapters_never_take_more_memory_than_full_tuning_nor_4_bits_more_than_16(entry):
    full, lora, qlora = (
        finetuning_memory(entry._replace(method=method)).total_gib
        for method in (LlmMethod.FULL, LlmMethod.LORA, LlmMethod.QLORA)
    )
    assert qlora <= lora <= full


@given(tunings(2, method=methods, sequence=st.integers(256, 16384)))
def test_longer_sequences_and_larger_micro_batches_never_take_less_memory(entry):
    small, long, wide = (
        finetuning_memory(each).total_gib
        for each in (entry, entry._replace(sequence=2 * entry.sequence), entry._replace(micro_batch=8))
    )
    assert small < long
    assert small < wide


@given(models, methods, st.sampled_from((2, 4, 8)))
def test_sharding_and_checkpointing_save_memory_and_more_gpus_do(model, method, gpus):
    whole = tuning(model, method=method, gpus=gpus, link="nvlink", checkpointing=Checkpointing.NONE)
    sharded = whole._replace(sharding=Sharding.ALL)
    wider = sharded._replace(gpus=2 * gpus)
    again = sharded._replace(checkpointing=Checkpointing.FULL)
    sizes = [finetuning_memory(each).total_gib for each in (whole, sharded, wider)]
    assert sizes == sorted(sizes, reverse=True)
    assert finetuning_memory(again).total_gib < sizes[1]


@given(
    models,
    methods,
    st.sampled_from(("H100-SXM5-80GB", "B200-SXM-180GB", "A100-SXM4-80GB")),
    st.sampled_from((512, 2048, 8192)),
)
def test_more_gpus_of_a_host_with_nvlink_never_do_less_together(model, method, gpu, sequence):
    entry = tuning(model, gpu, method=method, sequence=sequence)._replace(**OPEN)
    rates = []
    for gpus in (1, 2, 4, 8):
        request = entry._replace(gpus=gpus, link="nvlink" if gpus > 1 else "none")
        (result,) = bundled_finetuning_predictor().settled([request])
        rates.append(0.0 if result is None else median(result.tuning)[0])
    assert rates == sorted(rates)


@given(models, st.sampled_from(GPUS), methods, st.integers(256, 8192))
def test_what_is_chosen_fits_by_its_upper_bound(model, gpu, method, sequence):
    entry = tuning(model, gpu, method=method, sequence=sequence)._replace(**OPEN)
    (result,) = bundled_finetuning_predictor().settled([entry])
    room = card_gib(entry.gpu.name, entry.gpu.memory_gib)
    if result is None:
        assert not least_memory(entry).fits(room)
    else:
        assert result.memory.upper_gib <= room
        assert result.tuning.micro_batch


def test_a_run_too_large_for_its_card_is_never_said_to_fit():
    """Full tuning of 8B on 80 GB, LoRA of 70B in 16 bits, LoRA of 7B on 16 GB with 8,192 tokens kept."""
    too_large = [
        tuning(method=LlmMethod.FULL, micro_batch=None),
        tuning("meta-llama/Llama-3.1-70B", micro_batch=None),
        tuning(gpu="T4", sequence=8192, micro_batch=1, checkpointing=Checkpointing.NONE),
    ]
    assert bundled_finetuning_predictor().settled(too_large) == [None] * 3


def test_what_ships_is_what_the_rows_teach_which_lie_within_its_bounds_and_none_is_of_qlora(rows):
    """Who published a rate had not run out of memory."""
    gpus = bundled_gpu_facts()
    known = [row for row in rows if not math.isnan(row.peak_memory_gib) and row.context_parallel == 1]
    memories = [finetuning_memory(run_of(row, gpus).tuning) for row in known]
    assert len(known) >= 16
    for row, memory in zip(known, memories, strict=True):
        assert memory.lower_gib <= row.peak_memory_gib <= memory.upper_gib, row
    ratios = [memory.total_gib / row.peak_memory_gib for row, memory in zip(known, memories, strict=True)]
    assert np.mean(np.abs(np.array(ratios) - 1)) < 0.08
    gpus = bundled_gpu_facts()
    runs = [run_of(row, gpus).tuning for row in rows if row.source == "mpt" and row.precision == "bf16"]
    fitting = [finetuning_memory(run).lower_gib <= run.gpu.memory_gib for run in runs]
    assert np.mean(fitting) > 0.95
    belief = fitted(measured_rows(rows, bundled_gpu_facts()))
    shipped = bundled_finetuning_predictor().belief
    assert shipped.names == belief.names
    assert np.allclose(shipped.mean, belief.mean, atol=1e-3)
    # What answers warn of holds for the rows that ship.
    rated = [row.run.tuning for row in measured_rows(rows, bundled_gpu_facts())]
    assert all(entry.method is not LlmMethod.QLORA for entry in rated)


def test_attention_of_long_texts_is_faster_with_kernels_made_for_hopper_and_only_there():
    def seconds(gpu, sequence, released):
        entry = tuning(gpu=gpu, sequence=sequence, micro_batch=1)
        belief = bundled_finetuning_predictor().belief
        return float(parts_of(work_of([Run(entry, released=released)]), belief.mean).arithmetic[0])

    def gain(gpu, sequence):
        return seconds(gpu, sequence, "2023-07") / seconds(gpu, sequence, "")

    assert gain("H100-SXM5-80GB", 65536) > gain("H100-SXM5-80GB", 2048) > 1
    assert gain("A100-SXM4-80GB", 65536) == 1


def test_cards_that_cannot_tune_are_named_by_a_code():
    assert unsupported(tuning()) is None
    assert unsupported(tuning(gpu="T4", method=LlmMethod.FULL)) == "no_bf16"
    assert unsupported(tuning(gpu="T4", method=LlmMethod.QLORA)) is None
    assert unsupported(tuning(gpu="K80")) == "capability"


def test_a_written_predictor_reads_back_and_a_damaged_one_is_refused(tmp_path):
    path = tmp_path / "finetuning.json"
    write_tuning(bundled_finetuning_predictor(), path)
    rates = read_predictor(path).tokens_per_second([tuning()]).tokens_per_second
    assert rates.median[0] == pytest.approx(median(tuning())[0], rel=1e-3)
    path.write_text(json.dumps({"schema": "another"}))
    with pytest.raises(DataError):
        read_predictor(path)
