"""Lengths of prompts and answers: published traces, and files of the user's own."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from advisor.errors import UsageError
from advisor.questions.traffic import KNOWN_TRAFFIC, traffic_named, traffic_of_file

TOKENS = st.integers(1, 10**6)
REQUESTS = st.lists(st.tuples(TOKENS, TOKENS), min_size=1, max_size=50)


@pytest.mark.parametrize("name", KNOWN_TRAFFIC)
def test_a_published_trace_names_its_source_and_licence(name):
    traffic = traffic_named(name.upper())
    assert ("CC-BY" in traffic.source) or ("MIT" in traffic.source)
    assert 0 < traffic.input_tokens.mean < traffic.input_tokens.p99
    assert traffic.longest_tokens > traffic.input_tokens.mean + traffic.output_tokens.mean


@given(requests=REQUESTS)
def test_csv_and_jsonl_of_the_same_requests_are_the_same_traffic(tmp_path_factory, requests):
    folder = tmp_path_factory.mktemp("traffic")
    rows, lines = folder / "a.csv", folder / "a.jsonl"
    rows.write_text("input_tokens,output_tokens\n" + "".join(f"{a},{b}\n" for a, b in requests))
    lines.write_text(
        "\n".join(json.dumps({"input_tokens": a, "output_tokens": b, "x": 1}) for a, b in requests)
    )
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
    file = tmp_path_factory.mktemp("traffic") / "a.csv"
    file.write_text("input_tokens,output_tokens\n" + "".join(f"{a},{b}\n" for a, b in requests))
    longer = sum(a + b > most for a, b in requests) / len(requests)
    shares = [note.parameters["percent"] for note in traffic_of_file(file).notes(most)]
    assert shares == ([pytest.approx(100 * longer)] if longer else [])
    assert not list(traffic_of_file(file).notes(None))
