"""`recommend --export` and `-o yaml` as a user calls them."""

import pytest
import yaml

from advisor.render.export import FORMATS

ASK = ("recommend", "--task", "training", "--model", "resnet50", "--target-throughput", "100")


@pytest.mark.parametrize("tool", FORMATS)
def test_the_export_is_of_the_recommended_instance_and_nothing_else(tool, answer, shown):
    """So that it can be piped into a file."""
    text = shown(*ASK, "--export", tool)
    assert answer(*ASK)["recommendation"]["instance_type"] in text
    assert text.startswith("# resnet50 training")


def test_without_an_answer_nothing_is_exported(shown):
    """An empty file is better than one that starts the wrong machine."""
    assert shown(*ASK[:-1], "1e9", "--export", "ray", code=3) == ""


def test_yaml_holds_what_json_holds(answer, shown):
    assert yaml.safe_load(shown(*ASK, "--explain", "-o", "yaml")) == answer(*ASK, "--explain")
