"""What is kept between questions and what is not looked at change no answer."""

from concurrent.futures import ThreadPoolExecutor
from datetime import date

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from advisor.answers.context import Context, model_in_use
from advisor.catalog import load_catalog
from advisor.domain import Precision, Range, Task
from advisor.engine import Preparations, recommend
from advisor.engine.prepared import key_of
from advisor.render.document import recommendation_document
from tests.alike import alike
from tests.builders import network_question

CATALOG, MODEL = load_catalog(), model_in_use(None)
TODAY, LATER = date(2026, 7, 21), date(2026, 8, 30)
KNOWN = Preparations(CATALOG, MODEL)
SOURCES = Context(CATALOG, MODEL).sources()
# An example takes a second: a failing one is told as it was found.
NO_SHRINKING = (Phase.explicit, Phase.reuse, Phase.generate)

workloads = st.builds(
    network_question,
    network=st.sampled_from(["alexnet", "resnet50"]),
    task=st.sampled_from(list(Task)),
    precision=st.sampled_from([Precision.FP32, Precision.AMP]),
)


@st.composite
def questions(draw):
    """Questions of few workloads that differ in what they hold against the candidates."""
    request = replace(
        draw(workloads),
        target_throughput=draw(st.none() | st.floats(1, 3e4)),
        max_usd_per_hour=draw(st.none() | st.floats(0.05, 20)),
        max_results=draw(st.sampled_from([1, 10, 30])),
        pareto=draw(st.booleans()),
    )
    if request.task is not Task.TRAINING:
        return replace(request, max_count=draw(st.sampled_from([1, 1, 8])))
    return replace(request, epochs=draw(st.none() | st.floats(1, 50)))


def ask(request):
    return document_of(recommend(request, KNOWN, today=TODAY))


def ask_alone(request):
    return document_of(recommend(request, Preparations(CATALOG, MODEL), today=TODAY))


def document_of(answer):
    return recommendation_document(answer, SOURCES)


@pytest.mark.slow
@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.too_slow], phases=NO_SHRINKING)
@given(questions())
def test_an_answer_is_the_same_whatever_was_asked_before(request):
    assert alike(ask(request), ask_alone(request))


def test_what_comes_nearest_does_not_depend_on_the_types_that_were_looked_at_before():
    first = network_question(network="alexnet", task=Task.TRAINING)
    for target in (5.0, 20.0, 60.0, 150.0):
        ask(replace(first, target_throughput=target))
    for target, usd in ((60.0, 0.12), (80.0, 0.15), (100.0, 0.18), (120.0, 0.2)):
        question = replace(first, target_throughput=target, max_usd_per_hour=usd)
        assert ask(question)["recommendation"] is None
        assert alike(ask(question), ask_alone(question))


def test_the_workload_that_nobody_asked_for_longest_is_forgotten_first():
    few = Preparations(CATALOG, MODEL, most=2)
    first, two, three = (
        network_question(network=name, task=Task.INFERENCE) for name in ("alexnet", "resnet50", "vgg16")
    )
    kept, forgotten = few.of(first), few.of(two)
    assert few.of(replace(first, target_throughput=5.0, max_results=3)) is kept
    few.of(three)
    assert few.of(first) is kept
    assert few.of(two) is not forgotten


def test_questions_of_one_workload_or_other_gpus_are_quick_and_answered_from_the_same_table():
    known = Preparations(CATALOG, MODEL)
    request = network_question(network="alexnet", task=Task.PREPROCESSING, target_throughput=100.0)
    assert not known.is_quick(request)
    recommend(request, known, today=TODAY)
    assert known.is_quick(replace(request, target_throughput=250.0))
    assert not known.is_quick(replace(request, batch_size=64))
    request = network_question(network="resnet50", task=Task.INFERENCE, target_throughput=500.0)
    for change in ({"gpus": ("T4",)}, {"vcpus": Range(8, 16)}, {"min_gpu_memory_mib": 24_000.0}):
        changed = replace(request, **change)
        assert KNOWN.of(changed) is KNOWN.of(request)
        assert alike(ask(changed), ask_alone(changed))
    first = network_question(network="googlenet", task=Task.INFERENCE)
    questions = [replace(first, target_throughput=float(40 + 7 * n)) for n in range(12)]
    with ThreadPoolExecutor(4) as pool:
        assert alike(list(pool.map(ask, questions)), [ask_alone(question) for question in questions])


def test_what_decides_which_candidates_there_are_belongs_to_the_workload():
    request = network_question(network="alexnet", task=Task.INFERENCE)
    other = {"max_latency_ms": 5.0, "confidence": 0.8, "region": "eu-west-1", "batch_size": 8}
    other |= {"allow_extrapolation": True, "max_gpus": 1, "disk_types": ("gp3",)}
    for field, value in other.items():
        assert key_of(replace(request, **{field: value})) != key_of(request)
