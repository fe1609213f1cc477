"""What is named as elsewhere, or too large, is refused with the way out."""

import json

import pytest

from advisor.catalog import load_catalog
from advisor.questions.spec import CLOUD

GOOGLENET = ("recommend", "--task", "inference", "--model", "googlenet")


@pytest.mark.parametrize(
    ("name", "cloud"),
    [
        ("google", "gcp"),
        ("Google Cloud", "gcp"),
        ("amazon", "aws"),
        ("microsoft", "azure"),
        ("oracle", "oci"),
        ("Lambda Labs", "lambda"),
        ("aliyun", "alibaba"),
        ("vast.ai", "vast"),
        ("azur", "azure"),
        ("runpodd", "runpod"),
    ],
)
def test_a_cloud_by_another_name_is_told_with_its_own(ask, name, cloud):
    for words in (GOOGLENET, ("catalog", "list")):
        code, _, err = ask(*words, "--cloud", name)
        assert code == 2
        assert err.endswith(f"did you mean {cloud}?\n")


def test_every_cloud_of_the_catalogue_is_in_the_help_of_its_option():
    assert [name for name in load_catalog().clouds if name not in CLOUD.help] == []


def test_a_batch_that_fits_nowhere_is_relaxed_to_the_largest_doubling_that_fits(ask):
    code, out, _ = ask(*GOOGLENET, "--batch-size", "1,000,000", "--gpu", "T4", "-o", "json")
    assert code == 3
    (change,) = json.loads(out)["relax"][0]["changes"]
    fitting = int(change["to"])
    assert (change["option"], fitting >= 256) == ("--batch-size", True)
    sizes = [(fitting, 0), (2 * fitting, 3)]
    for size, wanted in sizes:
        assert ask(*GOOGLENET, "--batch-size", str(size), "--gpu", "T4")[0] == wanted


@pytest.mark.parametrize("address", ["s3://bucket/photos", "gs://b", "https://x.example/d.tar"])
def test_a_data_set_at_an_address_is_told_what_to_name_instead(ask, address):
    code, _, err = ask(*GOOGLENET, "--dataset", address)
    assert code == 2
    assert "copy a part of it here and name that folder" in err


def test_the_latency_that_is_limited_is_told_to_be_one_batch_alone(ask):
    _, out, _ = ask("recommend", "--help")
    assert "one batch alone" in " ".join(out.split())
    _, out, _ = ask(*GOOGLENET, "--max-latency-ms", "200", "--target-throughput", "100")
    assert "no queueing" in out
