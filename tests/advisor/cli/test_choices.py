"""Which spec and which batch is chosen, from the command line, on what ships."""

import json

import pytest

from tests.advisor.render.schemas import assert_keeps

pytestmark = pytest.mark.vector


@pytest.fixture
def document(shown):
    """The document of a command, whatever its exit code should be."""
    return lambda *words, code=0: json.loads(shown(*" ".join(words).split(), "-o", "json", code=code))


def test_every_command_tells_one_batch_of_a_spec(document):
    workload = "--task training --model bert-large --input seq:512"
    chosen = document("recommend", workload)["recommendation"]
    spec = f"{workload} --disk {chosen['disk']['order']}", f"--instance {chosen['instance_type']}"
    predicted = document("predict", *spec)
    assert predicted["batch_size"] == predicted["good_batch_size"] == chosen["batch_size"]
    compared = document("compare", *spec, "--instance g5.xlarge")["rows"]
    same = [row for row in compared if row["instance_type"] == chosen["instance_type"]]
    assert [row["batch_size"] for row in same] == [chosen["batch_size"]]


def test_what_comes_nearest_is_no_type_ten_times_too_slow(document):
    limits = "--target-throughput 10 --max-price 0.3"
    answer = document("recommend --task inference --model fasterrcnn_resnet50_fpn", limits, code=3)
    assert answer["nearest"]["predicted"]["throughput"]["median"] > 1
    # A target of less than a third is no way out where another one is.
    assert {way["changes"][0]["option"] for way in answer["relax"]} == {"--max-price", "--market", "--cloud"}
    slow = [each for each in answer["rejected"] if each["reason"] == "too_slow"]
    assert all(each["usd_per_hour"] > 0.02 for each in slow)


@pytest.mark.parametrize(
    ("question", "misfit", "schema"),
    [
        ("--task training --model resnet50 --epochs 5", "t3.medium", "comparison"),
        ("--task generation --model llama-3.1-8b --users 40", "g4dn.xlarge", "serving-comparison"),
        ("--task finetuning --model qwen3-8b --tokens 50M --max-hours 4", "g4dn.xlarge", "tuning-comparison"),
    ],
)
def test_what_cannot_run_ends_no_comparison_and_each_row_says_what_it_misses(
    question, misfit, schema, document, shown
):
    asked = f"compare {question} --max-price 0.9 --instance {misfit},g6e.xlarge,p5.4xlarge"
    answer, text = document(asked), shown(*asked.split())
    assert_keeps(answer, schema)
    assert [row["instance_type"] for row in answer["rows"]] == ["g6e.xlarge", "p5.4xlarge"]
    assert [(each["instance_type"], misfit in each["why"]) for each in answer["cannot"]] == [(misfit, True)]
    lines = {line.split()[0]: line for line in reversed(text.splitlines()) if line}
    missed = text.split("\nMisses\n")[1].split("\n\n")[0].splitlines()
    over = [line.split()[1].rstrip(":") for line in missed if "is above $0.900/h" in line]
    assert over == [row["instance_type"] for row in answer["rows"]]
    assert {*lines[misfit].split()[1:]} <= {"-", "1", "x", "T4"}
    assert f"\nLeft out\n- {misfit} cannot " in text


def test_each_of_several_language_models_is_compared_by_its_own_rate(document, shown):
    models = ["Qwen/Qwen3-8B", "mistralai/Mistral-7B-v0.1"]
    question = "compare --task finetuning --tokens 50M --instance p4d.24xlarge,p5.4xlarge --model"
    both, *alone = (f"{question} {names}" for names in (",".join(models), *models))
    answer = document(both)
    assert_keeps(answer, "tuning-comparison")
    own = zip(models, map(document, alone), strict=True)
    rows = [{"model": name, **row} for name, comparison in own for row in comparison["rows"]]
    assert (answer["rows"], [each["model"] for each in answer["requests"]]) == (rows, models)
    assert shown(*both.split()) == "\n".join(shown(*own.split()) for own in alone)


def test_a_model_of_an_unlisted_owner_says_what_it_is_taken_for(shown):
    for words, known in (
        ("--task generation --users 3 --model nonsense/Mistral-7B-v0.1", "mistralai/Mistral-7B-v0.1"),
        ("--task training --epochs 3 --model nonsense/resnet50", "resnet50"),
    ):
        assert f"taken as {known}" in shown("recommend", *words.split())


def test_what_no_cloud_sells_is_named_so_that_it_can_be_pasted(stderr):
    err = stderr("recommend", "--task", "training", "--model", "resnet50", "--gpu", "4090", code=3)
    assert "no type of aws us-east-1 (on-demand) has 4090" in err
    assert "--cloud to any" in err
