"""Which spec and which batch is chosen, from the command line, on what ships."""

import re

import pytest

pytestmark = pytest.mark.vector


@pytest.fixture
def document(answer):
    """The document of a command in words, which keeps its schema."""
    return lambda *words, code=0: answer(*" ".join(words).split(), code=code)


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
    assert len(answer["nearest"]["misses"]) == 1
    # A target of less than a third is no way out where another one is; market first, cloud last.
    assert [way["changes"][0]["option"] for way in answer["relax"]] == ["--market", "--max-price", "--cloud"]
    slow = [each for each in answer["rejected"] if each["reason"] == "too_slow"]
    assert all(each["usd_per_hour"] > 0.02 for each in slow)


@pytest.mark.parametrize(
    ("question", "misfit"),
    [
        ("--task training --model resnet50 --epochs 5", "t3.medium"),
        ("--task generation --model llama-3.1-8b --users 40", "g4dn.xlarge"),
        ("--task finetuning --model qwen3-8b --tokens 50M --max-hours 4", "g4dn.xlarge"),
    ],
)
def test_what_cannot_run_ends_no_comparison_and_each_row_says_what_it_misses(
    question, misfit, document, shown
):
    asked = f"compare {question} --max-price 0.9 --instance {misfit},g6e.xlarge,p5.4xlarge"
    answer, text = document(asked), shown(*asked.split())
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
    own = zip(models, map(document, alone), strict=True)
    rows = [{"model": name, **row} for name, comparison in own for row in comparison["rows"]]
    assert (answer["rows"], [each["model"] for each in answer["requests"]]) == (rows, models)
    table = [line.split() for line in shown(*both.split()).splitlines() if re.match("  p[45]", line)]
    assert [(row[0], row[4]) for row in table] == [(row["instance_type"], row["model"]) for row in rows]


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


def test_what_serves_all_users_is_named_beside_what_has_room_for_fewer(shown):
    question = "compare --task generation --model qwen3-32b --users 20 --instance p5.4xlarge,g7e.2xlarge"
    assert "Cheapest that surely does it: g7e.2xlarge" in shown(*question.split())
    question = "compare --task inference --model resnet50 --target-throughput 200 --market spot --instance"
    assert "surely does it: g6.xlarge" in shown(*question.split(), "g4dn.xlarge,g6.xlarge")


def test_a_comparison_of_any_market_names_those_that_it_takes(stderr):
    question = "compare --task training --model resnet50 --instance g6.xlarge --market any"
    assert "unknown market 'any'; did you mean on-demand or spot?" in stderr(*question.split())


def test_a_batch_that_may_not_fit_names_the_largest_that_surely_does(document, shown, stderr):
    """`memory`, `predict` and `compare` have one rule, and the numbers of one."""
    training = "--task training --model resnet50"
    memory = document("memory", training, "--gpu T4 --batch-size 256")
    (card,) = memory["gpus"]
    assert (card["verdict"], card["largest_batch"]) == ("may not fit", 208)
    gpus = f"compare {training} --gpu T4,L4 --batch-size"
    assert "batch 512 does not surely fit: T4 (largest: 208), L4 (largest:" in shown(*f"{gpus} 512".split())
    assert [row["largest_batch"] for row in document(gpus, "256")["rows"]] == [208, None]
    assert "batch 512 does not surely fit (largest: 208)" in shown(
        *f"predict {training} --gpu T4 --batch-size 512".split()
    )
    alone = stderr("predict", *training.split(), "--instance", "g4dn.xlarge", "--batch-size", "256")
    assert f"up to {memory['peak_mib']['upper'] / 1024:.4g} GiB of GPU memory" in alone
    assert "largest that surely fit are of 208" in alone
    both = stderr(*f"compare {training} --instance g4dn.xlarge,g6.xlarge --batch-size 512".split())
    assert both.count("largest that surely fit") == 2
    assert document("predict", training, "--instance g4dn.xlarge --batch-size 208")["batch_size"] == 208


def test_a_limit_makes_the_same_machine_no_cheaper(document):
    run = "--task training --model resnet50 --epochs 90"
    limits = ("", "--max-cost 97", "--max-hours 160 --max-cost 100")
    chosen = [document("recommend", run, limit, "--gpu T4")["recommendation"] for limit in limits]
    compared = document("compare", run, "--instance g4dn.xlarge,g6.xlarge")["rows"][0]
    assert {each["batch_size"] for each in (*chosen, compared)} == {chosen[0]["batch_size"]}
    costs = [each["run"]["usd"]["median"] for each in (*chosen, compared)]
    assert costs == pytest.approx([costs[0]] * 4)


def test_a_price_limit_that_leaves_cpus_alone_says_what_the_next_gpu_costs(document):
    run = "recommend --task training --model resnet50 --epochs 90 --max-price"
    (note,) = (text for text in document(run, "0.1")["warnings"] if "no GPU costs $0.100/h or less" in text)
    least = float(note.split(" at $")[1].split("/h")[0])
    above = document(run, f"{least + 0.01:g}")
    assert above["recommendation"]["gpu"]
    assert not [text for text in above["warnings"] if "no GPU costs" in text]


def test_a_limit_is_named_above_a_comparison_with_what_keeps_it_below(document, shown):
    words = "compare --task inference --model resnet50 --instance g4dn.xlarge,g6.xlarge,g6.2xlarge"
    limited = f"{words} --target-throughput 400 --max-latency-ms 60"
    text = shown(*limited.split())
    assert "; 400 images/s or more; a batch within 60 ms, queueing apart; " in text.splitlines()[0]
    heading = next(line for line in text.splitlines() if "median/s" in line)
    assert {"p99 ms", "sure"} <= {word.strip() for word in heading.split("  ")}
    assert "\nCheapest that surely does it: g6.xlarge, " in text
    assert not {"p99 ms", "sure"} & {*shown(*words.split()).split("  ")}


def test_auto_under_a_latency_limit_is_16_bits_where_the_gpu_computes_them(document):
    asked = "recommend --task inference --model vit_base_patch16_224 --target-throughput 300 --cloud any"
    answer = document(asked, "--max-latency-ms 20")
    specs = [answer["recommendation"], *answer["alternatives"]]
    assert {each["precision"] for each in specs if each["gpu"]} <= {"fp16", "bf16", "amp"}
    assert answer["close_calls"] == []  # a trial runs in no fp16


def test_samples_that_users_send_need_no_disk(document, stderr):
    asked = "recommend --task inference --model resnet50 --target-throughput 300"
    sent = document(asked, "--dataset requests")
    rates = sent["recommendation"]["stage_rates"]
    assert rates["storage"] > 10 * rates["host"]  # they lie in memory
    assert sent["request"]["dataset"]["kind"] == "image"
    assert sent["recommendation"]["disk"]["size_gib"] < document(asked)["recommendation"]["disk"]["size_gib"]
    err = stderr("recommend", "--task", "training", "--model", "resnet50", "--dataset", "requests")
    assert "--task inference only" in err


def test_the_gpu_of_an_instance_may_be_meant_by_its_type(document, stderr):
    (card,) = document("memory --model resnet50 --gpu g4dn.xlarge")["gpus"]
    assert card["name"] == "T4"
    assert "--gpu g4dn.xlarge" in stderr("memory", "--model", "resnet50", "--instance", "g4dn.xlarge")
    err = stderr("recommend", "--task", "training", "--model", "resnet50", "--gpu", "g4dn.xlarge")
    assert "its GPU is T4" in err


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        ("--task inference --model resnet50 --max-latency-ms p95:50", "p99 of a batch: write 50"),
        ("--task generation --model llama-3.1-8b --users 4 --max-ttft-ms p99", "p99:2000"),
        ("--task generation --model llama-3.1-8b --users 4 --max-latency-ms 500", "--max-e2e-s"),
        ("--task training --model resnet50 --dataset 100000", "--dataset-samples 100000"),
    ],
)
def test_a_limit_or_a_size_of_another_form_is_answered_by_the_right_one(words, hint, stderr):
    assert hint in stderr("recommend", *words.split())


def test_adamw_keeps_as_much_as_adam(document):
    words = "memory --model bert-base --gpu T4 --optimizer"
    assert document(f"{words} AdamW") == document(f"{words} adam")
