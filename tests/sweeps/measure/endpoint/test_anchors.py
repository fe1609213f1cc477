"""An anchor says what was served where; the predictor reads replicas out of it, or why not."""

import copy
import json
import subprocess
import sys
from importlib.resources import files

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from advisor.errors import UsageError
from advisor.sweeps.measure.endpoint.anchors import read_serving_anchor
from advisor.sweeps.measure.endpoint.protocol import address_of
from advisor.sweeps.measure.endpoint.records import Lengths, Load
from advisor.sweeps.measure.endpoint.session import Wanted, anchor_document, measured
from tests.sweeps.measure.endpoint.openai_server import fake_endpoint

# As it ships.
SCHEMA = json.loads((files("advisor.sweeps.measure.endpoint") / "anchor.schema.json").read_text())


class Sheet:
    """As much of a GPU's data sheet as the reader asks for."""

    nvlink_gb_s = 0.0


@pytest.fixture(scope="module")
def document():
    """What a session against a server of known pace wrote: a closed loop and a Poisson load."""
    loads = (Load(4), Load(None, 30.0))
    with fake_endpoint() as endpoint:
        address = address_of(endpoint.url)
        wanted = Wanted(model="org/model", lengths=Lengths(60, 10), loads=loads, seconds=2.0)
        session = measured(address, None, wanted, lambda _: None)
    formats = {"link": None, "precision": "fp8", "kv_precision": None}
    deployment = {"gpu": "L4", "gpus": 4, "tensor_parallel": 2, **formats, "gpu_facts": []}
    engine = {"name": "vllm", "version": "0.20.1"}
    return anchor_document(wanted, session, address, deployment=deployment, engine=engine)


def read(document, tmp_path, **more):
    path = tmp_path / "anchor.json"
    path.write_text(json.dumps(document))
    known = {"precision": "bf16", "kv_precision": "bf16"} | more
    return read_serving_anchor(path, lambda name: name, lambda name: Sheet(), **known)


def test_rates_and_concurrency_are_of_one_replica(document, tmp_path):
    """Four GPUs in pairs are two replicas, each with half of the requests and tokens."""
    jsonschema.validate(document, SCHEMA)
    closed, poisson = read(document, tmp_path).observations
    for observation in (closed, poisson):  # known no better than another run would repeat it
        assert observation.tpot_sigma >= 0.03
        assert observation.ttft_sigma >= 0.08
        assert observation.rate_sigma >= 0.03
    first = document["loads"][0]
    assert closed.concurrency == 2
    assert closed.output_tokens_per_second == pytest.approx(first["output_tokens_per_second"]["mean"] / 2)
    assert closed.tpot_seconds == first["tpot_seconds"]["mean"]
    assert closed.requests_per_second is None
    assert poisson.requests_per_second == 15
    assert poisson.concurrency == pytest.approx(document["loads"][1]["in_flight"] / 2)
    assert closed.traffic.input_tokens == first["input_tokens"]["mean"]
    silent = copy.deepcopy(document)  # of a server that counts no tokens
    for load in silent["loads"]:
        load["input_tokens"] = None
    assert {row.traffic.input_tokens for row in read(silent, tmp_path).observations} == {60.0}


def test_a_p99_is_known_from_a_hundred_answers_on(document, tmp_path):
    """That of fewer is the slowest of them, and says nothing of another hundred."""
    changed = copy.deepcopy(document)
    first, second = changed["loads"]
    for name in ("ttft_seconds", "tpot_seconds"):
        first[name] |= {"count": 100, "p99": 0.5}
        second[name] |= {"count": 99}
    (tail,) = read(changed, tmp_path).tails
    assert (str(tail.load), tail.ttft_p99_seconds, tail.tpot_p99_seconds) == ("concurrency 4", 0.5, 0.5)


def test_the_deployment_is_what_was_measured_and_gaps_are_the_questions(document, tmp_path):
    """The file's format wins; where it says none, the question's stands for it."""
    (entry, _) = read(document, tmp_path, kv_precision="fp8").observations
    served = entry.deployment
    assert (served.engine, served.version, served.precision) == ("vllm", "0.20", "fp8")
    assert (served.kv_precision, served.tensor_parallel, served.link) == ("fp8", 2, "pcie")


def test_loads_that_failed_are_left_out_by_name(document, tmp_path):
    """The others still count; where none is left the file is refused."""
    broken = copy.deepcopy(document)
    broken["loads"][0]["status"] = "rate_limited"
    anchor = read(broken, tmp_path)
    assert len(anchor.observations) == 1
    assert "rate_limited" in anchor.refused[0]
    broken["loads"][1]["generator"]["is_capped"] = True
    with pytest.raises(UsageError, match="rate_limited"):
        read(broken, tmp_path)


@pytest.mark.parametrize(
    ("part", "key", "value", "words"),
    [
        ("deployment", "gpu", "", "--gpu"),
        ("engine", "name", "", "--engine"),
        *(("deployment", key, "fp7", "'fp7' is none of") for key in ("precision", "kv_precision", "link")),
    ],
)
def test_what_the_file_does_not_know_is_asked_for_and_unknown_words_are_refused(
    document, tmp_path, part, key, value, words
):
    """A typing error in the file is the user's to mend, and no defect of the advisor."""
    broken = copy.deepcopy(document)
    broken[part][key] = value
    with pytest.raises(UsageError, match=words):
        read(broken, tmp_path)


def test_reading_needs_no_http_client():
    """A base install without the extra `endpoint` takes anchors."""
    code = "import sys, advisor.sweeps.measure.endpoint.anchors; assert 'aiohttp' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_other_files_are_told_from_it(tmp_path):
    """An anchor of a network goes elsewhere; what is nothing at all is refused with a hint."""
    path = tmp_path / "other.json"
    for content in ("", "{}", '{"schema": "advisor.anchor/1"}', "[" * 10_000):
        path.write_text(content)
        with pytest.raises(UsageError, match="advisor measure --endpoint"):
            read_serving_anchor(path, str, str, precision="bf16", kv_precision="bf16")


_DAMAGE = st.one_of(
    st.none(),
    st.just({}),
    st.just([]),
    st.just("x"),
    st.just(-1),
    st.just(0),
    st.just(10**400),
    st.floats(),
    st.booleans(),
)


@given(st.data())
def test_a_damaged_file_is_refused_and_never_breaks(document, tmp_path_factory, data):
    """Any value of it replaced by another: rows or a `UsageError`, nothing else."""
    broken = copy.deepcopy(document)
    path = broken
    while True:
        key = data.draw(st.sampled_from(list(path) if isinstance(path, dict) else list(range(len(path)))))
        inner = path[key]
        if not inner or not isinstance(inner, (dict, list)) or data.draw(st.booleans()):
            path[key] = data.draw(_DAMAGE)
            break
        path = inner
    try:
        rows = read(broken, tmp_path_factory.mktemp("damaged")).observations
    except UsageError:
        return
    assert all(row.tpot_sigma > 0 and row.concurrency > 0 for row in rows)
