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


def test_no_smaller_batch_is_as_fast(document):
    """It would take less time and memory, too."""
    workload = "--task inference --model fasterrcnn_resnet50_fpn"
    chosen = document("recommend", workload, "--target-throughput 10")["recommendation"]
    predicted = document("predict", workload, f"--instance {chosen['instance_type']}")
    rates = {point["batch_size"]: point["throughput"]["lower"] for point in predicted["by_batch"]}
    smaller = [rate for batch, rate in rates.items() if batch < chosen["batch_size"]]
    assert min(rates) == 1
    assert all(rate < rates[chosen["batch_size"]] for rate in smaller)


def cost(spec):
    return spec["run"]["usd"]["median"]


def test_of_equal_costs_a_measured_card_wins(document):
    answer = document("recommend --task finetuning --model llama-3.1-8b --tokens 50M")
    chosen, others = answer["recommendation"], answer["alternatives"]
    cheaper = [each for each in others if cost(each) < cost(chosen)]
    assert chosen["extrapolation"] == []
    assert all(each["extrapolation"] and cost(chosen) <= 1.1 * cost(each) for each in cheaper)
    assert cheaper


def test_of_equal_costs_the_shorter_run_wins(document):
    answer = document("recommend --task finetuning --model llama-3.1-8b --method full --tokens 100M")
    chosen, others = answer["recommendation"], answer["alternatives"]
    hours = chosen["run"]["hours"]["median"]
    level = [each for each in others if cost(each) <= cost(chosen) and not each["extrapolation"]]
    assert level
    assert all(each["run"]["hours"]["median"] > hours for each in level)
    # So does a network's run, and what has no length costs no more than a tenth more than the cheapest.
    endless = document("recommend --task training --model bert-large")
    costs = [
        each["cost"]["usd_per_million_samples"]
        for each in (endless["recommendation"], *endless["alternatives"])
    ]
    assert costs[0] <= 1.1 * min(costs)


def test_a_relaxed_cost_is_as_sure_as_its_bound_and_a_longer_run_is_named(document):
    question = "recommend --task training --model resnet50 --epochs 90 --max-cost 40"
    (cost_alone,) = [
        way for way in document(question, code=3)["relax"] if way["changes"][0]["option"] == "--max-cost"
    ]
    assert cost_alone["gives"]["probability"] >= 0.8
    assert cost_alone["gives"]["run"]["usd"] < float(cost_alone["changes"][0]["to"])
    ways = document(question, "--max-hours 4", code=3)["relax"]
    options = [[change["option"] for change in way["changes"]] for way in ways]
    assert ["--max-cost", "--max-hours"] in options


def test_adapters_are_named_where_all_weights_cost_too_much(document):
    question = "recommend --task finetuning --model qwen2.5-32b --method full --tokens 1B --max-cost 500"
    changes = [way["changes"] for way in document(question, code=3)["relax"]]
    assert ["--method", "--max-cost"] in [[change["option"] for change in each] for each in changes]


def test_what_comes_nearest_is_no_type_ten_times_too_slow(document):
    question = (
        "recommend --task inference --model fasterrcnn_resnet50_fpn --target-throughput 10 --max-price 0.3"
    )
    answer = document(question, code=3)
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
    over = [line.split()[1].rstrip(":") for line in missed if "> $0.900/h" in line]
    assert over == [row["instance_type"] for row in answer["rows"]]
    assert {*lines[misfit].split()[1:]} <= {"-", "1", "x", "T4"}
    assert f"\nLeft out\n- {misfit} cannot " in text


def test_each_of_several_language_models_is_compared_by_its_own_rate(document, shown):
    models, rest = (
        ["Qwen/Qwen3-8B", "mistralai/Mistral-7B-v0.1"],
        "--tokens 50M --instance p4d.24xlarge,p5.4xlarge",
    )
    both, *alone = (
        f"compare --task finetuning --model {names} {rest}" for names in (",".join(models), *models)
    )
    answer = document(both)
    assert_keeps(answer, "tuning-comparison")
    rows = [
        {"model": name, **row}
        for name, own in zip(models, map(document, alone), strict=True)
        for row in own["rows"]
    ]
    assert (answer["rows"], [each["model"] for each in answer["requests"]]) == (rows, models)
    assert shown(*both.split()) == "\n".join(shown(*own.split()) for own in alone)


def test_a_model_of_an_unlisted_owner_says_what_it_is_taken_for(shown):
    for model, known in (
        ("nonsense/Mistral-7B-v0.1", "mistralai/Mistral-7B-v0.1"),
        ("nonsense/resnet50", "resnet50"),
    ):
        task = "generation --users 3" if "/" in known else "training --epochs 3"
        assert f"taken as {known}" in shown(*f"recommend --task {task} --model {model}".split())


@pytest.mark.parametrize(
    ("question", "said", "code"),
    [
        (
            "--task training --model resnet50 --epochs 90 --max-hours 48 --market spot",
            "if never interrupted",
            0,
        ),
        (
            "--task inference --model resnet50 --target-throughput 30 --market commitment-1y",
            "the whole term of the commitment",
            0,
        ),
        ("--task inference --model resnet50 --target-throughput 30 --explain", "a load balancer shares", 0),
        ("--task inference --model resnet50 --target-throughput 30", "or take     c8a.xlarge", 0),
        ("--task training --model bert-base --epochs 3", "3 epochs of 7,812,500 samples", 0),
        (
            "--task finetuning --model llama-3.1-70b --method full --gpu H100 --tokens 50M --explain",
            "needs up to",
            3,
        ),
        (
            "--task finetuning --model llama-3.1-70b --method full --gpu H100 --tokens 50M --explain",
            "are not modelled",
            3,
        ),
    ],
)
def test_what_an_answer_takes_for_granted_is_said(shown, question, said, code):
    assert said in " ".join(shown("recommend", *question.split(), code=code).split("\n"))


def test_what_no_cloud_sells_is_named_so_that_it_can_be_pasted(ask):
    code, _, err = ask("recommend", "--task", "training", "--model", "resnet50", "--gpu", "4090")
    assert (code, "no type of aws us-east-1 (on-demand) has 4090" in err) == (3, True)
    assert "--cloud to any" in err
