"""What is typed of the instance and of the traffic: names, memory, capability, vCPUs, RAM, lengths."""

from __future__ import annotations

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from advisor.domain import ANY, IMAGENET, Range
from advisor.errors import UsageError
from advisor.messages import format_range
from advisor.models.performance.networks import bundled_networks
from advisor.quantities import parse_positive, parse_range
from advisor.questions.listings import HardwareFilter
from advisor.questions.reading import from_texts
from advisor.questions.traffic import KNOWN_TRAFFIC, traffic_named, traffic_of_file
from advisor.questions.values import GpuFilter, dataset_for, parse_ram, stored_as


def wanted(text: str) -> GpuFilter:
    gpu = from_texts(HardwareFilter, {"gpu": [text]}).gpu
    assert gpu is not None
    return gpu


@pytest.mark.parametrize(
    ("text", "names", "memory", "capability"),
    [
        ("T4,L4,..24GiB", ("T4", "L4"), Range(None, 24576), ANY),
        ("16GiB..48GiB", (), Range(16384, 49152), ANY),
        *[(text, (), ANY, Range(7.5, 8.9)) for text in ("CC7.5..8.9", "cc7.5..cc8.9")],
        *[("cc..9", (), ANY, Range(None, 9.0)), ("cc8.6", (), ANY, Range(8.6, 8.6))],
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


@pytest.mark.parametrize(
    ("text", "refusal"),
    [
        ("4GiB-8GiB", "no range; write it as 4GiB..8GiB"),
        ("0.5GiB - 1.5GiB", "no range; write it as 0.5GiB..1.5GiB"),
        *[(text, "no range; write it like 4..16, 4.. or ..16") for text in ("..", "", "4GiB-")],
        ("-1GiB", "not a size; write it with its unit"),
    ],
)
def test_a_range_with_a_dash_is_refused_as_it_would_be_written(text, refusal) -> None:
    with pytest.raises(UsageError, match=re.escape(f"'{text}' is {refusal}")):
        parse_ram(text)


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


TOKENS = st.integers(1, 10**6)
REQUESTS = st.lists(st.tuples(TOKENS, TOKENS), min_size=1, max_size=50)


@pytest.mark.parametrize("name", KNOWN_TRAFFIC)
def test_a_published_trace_names_its_source_and_licence(name):
    traffic = traffic_named(name.upper())
    assert ("CC-BY" in traffic.source) or ("MIT" in traffic.source)
    assert 0 < traffic.input_tokens.mean < traffic.input_tokens.p99
    assert traffic.longest_tokens > traffic.input_tokens.mean + traffic.output_tokens.mean


def as_csv(folder, requests):
    (folder / "a.csv").write_text("input_tokens,output_tokens\n" + "".join(f"{a},{b}\n" for a, b in requests))
    return folder / "a.csv"


@given(requests=REQUESTS)
def test_csv_and_jsonl_of_the_same_requests_are_the_same_traffic(tmp_path_factory, requests):
    rows = as_csv(tmp_path_factory.mktemp("traffic"), requests)
    documents = [{"input_tokens": a, "output_tokens": b, "x": 1} for a, b in requests]
    lines = rows.with_suffix(".jsonl")
    lines.write_text("\n".join(map(json.dumps, documents)))
    first, second = traffic_of_file(rows), traffic_of_file(lines)
    assert first[2:4] == second[2:4]
    assert first.input_tokens.mean == pytest.approx(sum(a for a, _ in requests) / len(requests))


@pytest.mark.parametrize(
    "text",
    [
        "TIMESTAMP,ContextTokens,GeneratedTokens\n2023,374,44\n2023,396,109\n",
        "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n"
        "5,ChatGPT,374,44,418,Conversation log\n45,GPT-4,396,109,505,API log\n",
        '{"timestamp": 0, "input_length": 374, "output_length": 44, "hash_ids": [46]}\n'
        '{"timestamp": 1, "input_length": 396, "output_length": 109, "hash_ids": [47]}\n',
        " Input_Tokens , output_tokens\n374,44\n396,109\n",
    ],
    ids=["azure", "burstgpt", "mooncake", "own"],
)
def test_the_columns_of_published_traces_are_known(tmp_path, text):
    file = tmp_path / "trace"
    file.write_text(text)
    traffic = traffic_named(str(file))
    assert (traffic.input_tokens.mean, traffic.output_tokens.mean) == (385, 76.5)


def test_requests_without_an_answer_are_left_out_and_counted_and_too_long_ones_told(tmp_path):
    """BurstGPT has its failures so."""
    file = tmp_path / "burst.csv"
    file.write_text("Request tokens,Response tokens\n100,10\n5000,0\n300,30\n200,0\n")
    traffic = traffic_named(str(file))
    assert (traffic.input_tokens.mean, traffic.failed) == (200, 2)
    assert [note.code for note in traffic.notes(None)] == ["failed_requests"]
    file.write_text("Request tokens,Response tokens\n100,0\n")
    with pytest.raises(UsageError, match="has no requests"):
        traffic_named(str(file))
    chat = traffic_named("chat")
    assert not list(chat.notes(chat.longest_tokens))
    assert [note.code for note in chat.notes(chat.longest_tokens - 1)] == ["refused_requests"]


@given(requests=REQUESTS, most=st.integers(1, 2 * 10**6))
def test_the_share_that_a_server_refuses_is_told_where_there_is_one(tmp_path_factory, requests, most):
    traffic = traffic_of_file(as_csv(tmp_path_factory.mktemp("traffic"), requests))
    longer = sum(a + b > most for a, b in requests) / len(requests)
    shares = [note.parameters["percent"] for note in traffic.notes(most)]
    assert shares == ([pytest.approx(100 * longer)] if longer else [])
    assert not list(traffic.notes(None))
