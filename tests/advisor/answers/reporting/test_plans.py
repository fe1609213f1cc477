"""A plan file: workloads in the words of `recommend`, and a line for whatever is wrong."""

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from advisor.answers.reporting.plans import LONGEST_NAME, read_plan, shown_name
from advisor.errors import UsageError

TEAM = """
title: Vision team
defaults:
  region: eu-west-1
  confidence: 0.95
workloads:
  - name: Thumbnails
    task: inference
    model: googlenet
    target-throughput: 1e3
    region: us-east-1
  - task: training
    model: resnet50
    gpu: [T4, L4]
    accelerated_only: yes
"""


def plan(text, name="team.yaml"):
    return read_plan(text.encode(), name)


def test_workloads_keep_their_own_words_and_else_have_the_defaults_and_a_number_for_a_name():
    report = plan(TEAM)
    first, second = report.entries
    assert (report.title, second.name) == ("Vision team", "2. resnet50 training")
    assert (first.line, second.line) == (7, 12)
    own = {"region": ("us-east-1",), "target_throughput": ("1e3",)}
    assert first.fields == first.fields | own
    own = {"region": ("eu-west-1",), "gpu": ("T4", "L4"), "accelerated_only": ("yes",)}
    assert second.fields == second.fields | own


def test_what_is_no_text_or_longer_than_anybody_reads_is_refused():
    with pytest.raises(UsageError, match="no UTF-8"):
        read_plan(b"\xff\xfe\x00", "team.yaml")
    with pytest.raises(UsageError, match="larger"):
        read_plan(b"#" * (2**20 + 1), "team.yaml")
    many = "workloads:\n" + "".join(f"  - name: w{number}\n" for number in range(501))
    with pytest.raises(UsageError, match="more than 500"):
        plan(many)


@pytest.mark.parametrize("name", ["图像分类", "👩‍💻", "=1+1", "<b>", "x" * LONGEST_NAME, "العربية"])
def test_names_of_any_script_are_taken(name):
    assert shown_name(f"  {name} ", "name") == name


@given(st.text(max_size=60) | st.binary(max_size=60).map(lambda b: b.decode("latin-1")))
def test_whatever_a_file_holds_is_a_plan_or_is_refused(text):
    with contextlib.suppress(UsageError):
        assert plan(text).entries


@given(
    st.dictionaries(
        st.text("abcdefgh_", min_size=1, max_size=6).filter(lambda key: key != "name"),
        st.text("abc123.:/ ", min_size=1, max_size=8).filter(str.strip),
        max_size=4,
    )
)
def test_what_is_written_is_what_is_read(words):
    import yaml

    text = yaml.safe_dump({"workloads": [{"name": "a", **words}]}, default_style='"')
    (entry,) = plan(text).entries
    assert entry.fields == {key: (value,) for key, value in words.items()}
