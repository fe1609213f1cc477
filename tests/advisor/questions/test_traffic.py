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
    assert 0 < traffic.input_tokens.p50 < traffic.input_tokens.p99
    assert traffic.longest_tokens > traffic.input_tokens.mean + traffic.output_tokens.mean


@given(requests=REQUESTS)
def test_csv_and_jsonl_of_the_same_requests_are_the_same_traffic(tmp_path_factory, requests):
    folder = tmp_path_factory.mktemp("traffic")
    rows, lines = folder / "a.csv", folder / "a.jsonl"
    rows.write_text("input_tokens,output_tokens\n" + "".join(f"{a},{b}\n" for a, b in requests))
    lines.write_text("\n".join(json.dumps({"input_tokens": a, "output_tokens": b, "x": 1})
                               for a, b in requests))  # fmt: skip
    first, second = traffic_of_file(rows), traffic_of_file(lines)
    assert first[2:] == second[2:]
    assert first.input_tokens.mean == pytest.approx(sum(a for a, _ in requests) / len(requests))


def test_the_columns_of_azures_traces_are_known(tmp_path):
    file = tmp_path / "trace.csv"
    file.write_text("TIMESTAMP,ContextTokens,GeneratedTokens\n2023,374,44\n2023,396,109\n")
    assert traffic_named(str(file)).input_tokens.mean == 385


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "has no requests"),
        ("input_tokens,output_tokens\n", "has no requests"),
        ("input_tokens,output_tokens\n5,ten\n", "line 2, is no request"),
        ("input_tokens,output_tokens\n5,3\n0,3\n", "line 3, is no request"),
        ('{"input_tokens": 5, "output_tokens": 3}\n[1]\n', "line 2, is no request"),
        ('{"input_tokens": true, "output_tokens": 3}\n', "line 1, is no request"),
        ("a,b\n1,2\n", "line 2, is no request"),
    ],
)
def test_a_file_that_is_no_traffic_is_refused_with_its_line(tmp_path, text, said):
    file = tmp_path / "trace"
    file.write_text(text)
    with pytest.raises(UsageError, match=said) as refused:
        traffic_named(str(file))
    assert refused.value.field == "traffic"


def test_a_name_that_is_none_gets_the_known_ones():
    with pytest.raises(UsageError, match="did you mean chat"):
        traffic_named("chatt")


def test_a_file_that_does_not_exist_is_told_beside_the_names():
    with pytest.raises(UsageError, match="known: a CSV or JSONL file, chat, code, summary"):
        traffic_named("/no/such/trace.csv")
