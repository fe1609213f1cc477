"""A command takes one of several questions: its task says which, however it is asked."""

import json
from urllib.parse import urlencode

import jsonschema
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from advisor.cli.questions import question_from
from advisor.cli.recommend import recommend
from advisor.errors import UsageError
from advisor.questions import reading
from advisor.questions.commands import COMPARE, MEMORY, PREDICT, RECOMMEND
from advisor.questions.language import RecommendFinetuning, RecommendGeneration
from advisor.questions.network import Recommend
from advisor.questions.reading import from_link, from_texts, from_values

MODEL = {"model": "meta-llama/Llama-3.1-8B"}
SHARED = {
    "cloud": st.sampled_from(["aws", "gcp", "any"]),
    "market": st.sampled_from(["on-demand", "spot"]),
    "gpu": st.sampled_from(["T4,L4", "24GiB..", "A100,40GiB..,cc8.0.."]),
    "region": st.sampled_from(["us-east-1", "eu-west-1"]),
    "disk": st.sampled_from(["gp3:500GiB", "gp3,io2", "local"]),
    "max_price": st.floats(0.001, 1e6),
    "max_results": st.integers(1, 1000),
    "max_gpus": st.integers(1, 64),
    "confidence": st.floats(0.5, 0.999),
    "explain_rejected": st.booleans(),
    "target_throughput": st.floats(0.001, 1e9),
}
INFERENCE = st.fixed_dictionaries(
    {"task": st.just("inference"), "model": st.just("googlenet")},
    optional=SHARED
    | {
        "batch_size": st.integers(1, 10**9),
        "precision": st.sampled_from(["fp32", "amp", "bf16", "fp16"]),
        "dataset": st.sampled_from(["imagenet", "coco"]),
        "vcpus": st.sampled_from(["4..16", "8..", "8"]),
        "memory": st.sampled_from(["32GiB..64GiB", "1.5GiB.."]),
        "pareto": st.booleans(),
    },
)
GENERATION = st.fixed_dictionaries(
    {"task": st.just("generation"), "model": st.just(MODEL["model"])},
    optional=SHARED
    | {
        "precision": st.sampled_from(["bf16", "fp8", "int4-awq", "nvfp4", "mxfp4"]),
        "kv_precision": st.sampled_from(["bf16", "fp8"]),
        "engine": st.sampled_from(["vllm", "sglang", "trtllm", "llama.cpp"]),
        "tensor_parallel": st.integers(1, 64),
        "traffic": st.sampled_from(["chat", "code", "summary"]),
        "prefix_share": st.floats(0.0, 0.99),
        "max_ttft_ms": st.floats(0.1, 1e5),
        "max_tpot_ms": st.floats(0.1, 1e5),
        "max_e2e_s": st.floats(0.1, 1e5),
        "max_context": st.integers(1, 10**7),
        "max_ready_s": st.floats(0.1, 1e5),
        "max_count": st.integers(1, 1000),
    },
)
FINETUNING = st.fixed_dictionaries(
    {"task": st.just("finetuning"), "model": st.just(MODEL["model"]), "tokens": st.floats(1, 1e15)},
    optional=SHARED
    | {
        "method": st.sampled_from(["full", "lora", "qlora"]),
        "sequence": st.integers(1, 10**6),
        "micro_batch": st.integers(1, 1000),
        "max_hours": st.floats(0.001, 1e5),
        "max_cost": st.floats(0.001, 1e6),
    },
)
KINDS = {"inference": Recommend, "generation": RecommendGeneration, "finetuning": RecommendFinetuning}


@example({"task": "generation", **MODEL, "prefix_share": 0.0})
@example({"task": "inference", "model": "sdxl", "guidance": False, "steps": 4})
@given(st.one_of(INFERENCE, GENERATION, FINETUNING))
def test_a_question_survives_the_way_over_a_command_line_json_and_a_link(values):
    question = from_values(RECOMMEND, values)
    assert type(question) is KINDS[values["task"]]
    context = recommend.make_context("recommend", reading.options_of(question))
    assert question_from(RECOMMEND, dict(context.params)) == question
    assert reading.from_json(RECOMMEND, json.dumps(values).encode()) == question
    link = {name: str(value).lower() if value in (True, False) else value for name, value in values.items()}
    assert from_link(RECOMMEND, urlencode(link).encode()) == question
    assert from_texts(RECOMMEND, {name: [str(text)] for name, text in link.items()}) == question
    assert from_texts(RECOMMEND, reading.texts_of(question)) == question
    jsonschema.validate(values, reading.schema_of(type(question)))


TRAINING = {"task": "training", "model": "resnet50"}
PREPROCESSING = TRAINING | {"task": "preprocessing"}
GENERATED = {"task": "generation", **MODEL}
ON_GPU = {**TRAINING, "gpu": "T4,L4"}


@pytest.mark.parametrize(
    ("kinds", "values", "field"),
    [
        (RECOMMEND, {**GENERATED, "batch_size": 8}, "batch_size"),
        (RECOMMEND, {"task": "finetuning", **MODEL, "tokens": 1e9, "users": 8}, "users"),
        (RECOMMEND, {"task": "inference", "model": "googlenet", "users": 8}, "users"),
        (PREDICT, {**GENERATED, "instance": "g5.xlarge", "vcpus": 4}, "vcpus"),
        (COMPARE, {"task": "inference", "model": "googlenet", "users": 3}, "users"),
        (MEMORY, {"model": "resnet50", "engine": "vllm"}, "engine"),
    ],
)
def test_a_field_of_other_tasks_is_refused_by_its_name(kinds, values, field):
    with pytest.raises(UsageError) as refused:
        from_values(kinds, values)
    assert (refused.value.field, refused.value.code) == (field, "contradiction")
    with pytest.raises(UsageError, match=f"--{field.replace('_', '-')} goes with --task"):
        from_texts(kinds, {name: [str(value)] for name, value in values.items()})


@pytest.mark.parametrize(
    ("kinds", "values", "field"),
    [
        (RECOMMEND, {"task": "generation"}, "model"),
        (RECOMMEND, {**GENERATED, "users": 4, "target_requests_per_s": 1}, "users"),
        (RECOMMEND, {**GENERATED, "output_tokens": 10, "traffic": "chat"}, "traffic"),
        (RECOMMEND, {"task": "generation", "model": "../config.json"}, "model"),
        (RECOMMEND, {**GENERATED, "traffic": "/etc/passwd"}, "traffic"),
        (RECOMMEND, {**TRAINING, "max_latency_ms": 5}, "max_latency_ms"),
        (RECOMMEND, {**TRAINING, "task": "inference", "max_first_epoch_hours": 5}, "max_first_epoch_hours"),
        (RECOMMEND, {**TRAINING, "precision": "amp", "tf32": "on"}, "tf32"),
        (RECOMMEND, {**TRAINING, "horizon_hours": 5}, "horizon_hours"),
        (RECOMMEND, {**PREPROCESSING, "max_gpus": 1}, "max_gpus"),
        (RECOMMEND, {**PREPROCESSING, "stack": "compile"}, "stack"),
        (COMPARE, {**ON_GPU, "disk": "gp3"}, "disk"),
        (COMPARE, {**ON_GPU, "region": "eu-west-1"}, "region"),
        (COMPARE, {**ON_GPU, "cloud": "gcp"}, "cloud"),
        (COMPARE, {**ON_GPU, "market": "spot"}, "market"),
    ],
)
def test_what_contradicts_itself_or_means_nothing_names_its_field(kinds, values, field):
    with pytest.raises(UsageError) as refused:
        from_values(kinds, values)
    assert refused.value.field == field


def test_tensor_parallelism_may_be_left_to_the_advisor():
    auto = from_values(RECOMMEND, {**GENERATED, "tensor_parallel": "auto"})
    assert auto == from_values(RECOMMEND, GENERATED)
