"""What a service is asked for: images of so many denoising steps, and requests that no disk has."""

import shlex

import pytest

import advisor
from advisor.errors import UsageError
from advisor.questions.network import Predict
from advisor.questions.reading import from_texts, from_values, options_of, texts_of

ON = (*shlex.split("--instance p6-b200.48xlarge --max-gpus 1 --precision amp --batch-size 2"),)


def _predicted(answer, *words, model="sdxl", task="inference"):
    return answer("predict", "--task", task, "--model", model, *ON, *words)


def _pass(answer, model="sdxl"):
    """One pass through the network."""
    return _predicted(answer, "--steps", "1", "--no-guidance", model=model)


@pytest.mark.parametrize(
    ("words", "model", "passes"),
    [
        ((), "sdxl", 60),
        (("--guidance",), "sdxl", 60),
        (("--no-guidance",), "sdxl", 30),
        (("--steps", "20"), "stable-diffusion-1.5", 40),
        (("--steps", "4", "--no-guidance"), "pixart-alpha", 4),
        ((), "DiT-XL-2", 60),
        ((), "stable-diffusion-3-medium", 60),
        ((), "flux.1-dev", 30),
        (("--guidance",), "flux.1-dev", 60),
    ],
)
def test_an_image_takes_as_long_as_its_passes(answer, words, model, passes):
    """Rate, latency and cost are those of one pass, so many times; flux takes one a step."""
    once, image = _pass(answer, model), _predicted(answer, *words, model=model)
    for bound in ("lower", "median", "upper"):
        rates = (each["predicted"]["throughput"][bound] for each in (once, image))
        assert next(rates) / next(rates) == pytest.approx(passes, rel=0.02)
    costs = [each["cost"]["usd_per_million_samples"] for each in (once, image)]
    assert costs[1] / costs[0] == pytest.approx(passes, rel=0.02)
    rows = [each["by_batch"][0]["latency"]["p50_ms"] for each in (once, image)]
    assert 0.5 * passes < rows[1] / rows[0] <= passes * 1.01
    dataset = image["request"]["dataset"]
    assert dataset["sample"] == "image"
    assert dataset["steps"] * (1 + dataset["guidance"]) == passes
    assert any(f"({passes} passes)" in assumption for assumption in image["assumptions"])


def test_training_counts_steps_as_before(answer):
    """A training sample is one pass, of latents that lie on a disk."""
    words = ("--task", "training", "--model", "stable-diffusion-1.5")
    dataset = answer("predict", *words, *ON)["request"]["dataset"]
    assert (dataset["name"], dataset["sample"]) == ("tensors", "step")
    assert "steps" not in dataset


@pytest.mark.parametrize("given", [{"guidance": False}, {"guidance": True, "steps": 4}, {}])
def test_a_question_is_asked_again_as_it_was(given):
    """By the words of a command, by texts and by JSON."""
    values = {"task": "inference", "model": "sdxl", "instance": "g6e.xlarge", **given}
    question = from_values(Predict, values)
    assert from_texts(Predict, texts_of(question)) == question
    words = options_of(question)
    assert ("--no-guidance" in words) == (given.get("guidance") is False)
    assert ("--guidance" in words) == (given.get("guidance") is True)


@pytest.mark.parametrize(
    "model",
    [
        "whisper-large-v3",
        "sdxl",
        "stable-diffusion-1.5-vae",
        "deepspeech2",
        "dlrm",
        "ncf",
        "wav2vec2-base-960h",
        "unet3d",
        "r3d_18",
        "videomae-base-finetuned-kinetics",
    ],
)
def test_a_service_needs_no_disk_for_what_it_is_sent(answer, model):
    """No data set is read where tensors stand for one; who names one has it read."""
    words = ("recommend", "--task", "inference", "--model", model)
    served = answer(*words)
    assert served["request"]["dataset"]["name"] == "requests"
    assert "requests of" in served["assumptions"][0]
    assert not any(
        "disk sized" in assumption or "from the disk" in assumption for assumption in served["assumptions"]
    )
    for spec in (served["recommendation"], *served["alternatives"]):
        assert spec["bottleneck"] != "storage"
        assert spec["disk"]["type"] == "instance_store" or spec["disk"]["size_gib"] <= 10
    read = answer(*words, "--dataset", "tensors")
    assert read["request"]["dataset"]["samples"] == 1_000_000


def test_no_name_means_requests():
    """They are what is left where no data set is named."""
    with pytest.raises(UsageError, match="dataset"):
        advisor.recommend(task="inference", model="sdxl", dataset="requests")
