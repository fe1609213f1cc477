"""The commands about language models, with the bundled models, rates and prices."""

import json
import shlex

import openpyxl
import pytest
import yaml

from advisor.cli.main import run
from tests.advisor.render.sizing.reports import validator

MODEL = ["--model", "meta-llama/Llama-3.1-8B"]
SERVE = ["--task", "generation", *MODEL]
ASK = ["recommend", *SERVE, "--users", "16", "--allow-extrapolation"]


@pytest.fixture
def told(capsys):
    """What a command prints; it must end with `code`."""

    def command(*words, code=0):
        assert run(list(words)) == code, capsys.readouterr().err
        return capsys.readouterr().out

    return command


MIX = "input_tokens,output_tokens\n" + 6 * "2000,200\n" + 4 * "60000,200\n"


def test_requests_that_are_too_long_for_the_model_are_a_warning(told, tmp_path):
    """With their share, in every form; where the mean is too long, it is refused."""
    file = tmp_path / "mix.csv"
    file.write_text(MIX)
    words = ["--model", "Qwen/Qwen3-8B", "--traffic", str(file), "--task", "generation"]
    ask = ["recommend", *words, "--users", "10"]
    warned = json.loads(told(*ask, "-o", "json"))["warnings"]
    share = "40 % of the requests of mix.csv are longer than the 40,960 tokens that are served"
    assert any(share in text for text in warned)
    assert "40 % of the requests of mix.csv" in " ".join(told(*ask).split())
    served = json.loads(told("predict", *words, "--users", "2", "--instance", "p4d.24xlarge", "-o", "json"))
    assert any(share in text for text in served["warnings"])
    shorter = json.loads(told(*ask, "--max-context", "30000", "-o", "json"))["warnings"]
    assert any("the 30,000 tokens that are served" in text for text in shorter)
    file.write_text(MIX.replace("60000", "600000"))
    told(*ask, code=2)


FP8 = {
    "model_type": "llama",
    "hidden_size": 4096,
    "intermediate_size": 14336,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "vocab_size": 128256,
    "max_position_embeddings": 131072,
    "quantization_config": {
        "quant_method": "modelopt",
        "quant_algo": "FP8",
        "kv_cache_scheme": {"num_bits": 8, "type": "float"},
    },
}


def test_a_checkpoint_with_fp8_keys_and_values_is_served_with_them(told, tmp_path):
    """As vLLM takes it by itself; the file that starts it names what its folder lacks."""
    config = tmp_path / "mine.json"
    config.write_text(json.dumps(FP8))
    words = ["recommend", "--task", "generation", "--config", str(config), "--users", "8"]
    found = json.loads(told(*words, "-o", "json"))
    serving = found["recommendation"]["serving"]
    assert (serving["model"], serving["precision"], serving["kv_precision"]) == ("mine", "fp8", "fp8")
    assert "a KV cache in fp8" in found["assumptions"]
    text = told(*words, "--export", "compose")
    (service, *_) = yaml.safe_load(text)["services"].values()
    command = service["command"]
    assert command[command.index("--kv-cache-dtype") + 1] == "fp8"
    assert "Name a checkpoint" not in text
    assert "vLLM reads config.json: call mine.json so in its folder." in text
    sixteen = told(*words, "--kv-precision", "bf16", "--export", "compose")
    (service, *_) = yaml.safe_load(sixteen)["services"].values()
    command = service["command"]
    assert command[command.index("--kv-cache-dtype") + 1] == "bfloat16"
    memory = json.loads(told("memory", *words[1:5], "--gpu", "H100", "-o", "json"))
    assert memory["request"]["kv_precision"] == "fp8"


def test_the_folder_of_a_configuration_is_mounted(told, tmp_path):
    """The folder that is named, not the one that it lies in."""
    (tmp_path / "config.json").write_text(json.dumps(FP8))
    words = ["recommend", "--task", "generation", "--config", str(tmp_path), "--users", "8"]
    text = told(*words, "--export", "compose")
    assert f"{tmp_path}:/model:ro" in text
    assert "vLLM reads" not in text


def test_a_language_model_asked_about_as_a_network_gets_the_way_out(capsys):
    assert run(["recommend", "--task", "inference", *MODEL]) == 2
    assert "ask for --task generation" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "way_out"),
    [
        ("recommend --task finetuning --model bert-base-uncased", "--task training"),
        ("recommend --task finetuning --model bert-base-uncased --tokens 5M", "--task training"),
        ("predict --task generation --model resnet50 --instance g5.xlarge", "--task training"),
        ("memory --task finetuning --model ViT-B/16", "--task training"),
        ("memory --model meta-llama/Llama-3.1-8B", "--task generation"),
        ("predict --task training --model meta-llama/Llama-3.1-8B --gpu L4", "--task generation"),
        ("networks llama", "others are language models: ask for --task generation"),
        ("networks Qwen2.5", "others are language models: ask for --task generation"),
    ],
)
def test_a_model_that_another_task_takes_is_told_with_that_task(capsys, words, way_out):
    assert run(words.split()) == 2
    assert way_out in capsys.readouterr().err


def test_a_name_that_nothing_has_is_of_no_other_task(capsys):
    assert run(["networks", "nothinglikeit"]) == 2
    assert "language model" not in capsys.readouterr().err


def test_a_mistyped_model_gets_near_names(capsys):
    assert run(["recommend", "--task", "generation", "--model", "meta-llama/Lama-3.1-8B"]) == 2
    assert "meta-llama/" in capsys.readouterr().err


def test_help_has_a_section_for_language_models(told):
    text = told("recommend", "--help")
    _, section = text.split("Language models (--task generation, finetuning):")
    for option in ("--users", "--max-tpot-ms", "--traffic", "--tensor-parallel", "--method"):
        assert option in section.split("Targets and limits:")[0]
    assert "without\n" in section or "without the first token" in " ".join(section.split())


@pytest.mark.parametrize("format", ["compose", "skypilot", "dstack"])
def test_an_export_starts_vllm_on_the_recommended_spec(told, format):
    document = yaml.safe_load(told(*ASK, "--export", format))
    assert "Llama-3.1-8B" in json.dumps(document)
    assert "--tensor-parallel-size" in json.dumps(document)


PLAN = """
title: Mixed team
defaults: {region: us-east-1}
workloads:
  - {name: Thumbnails, task: inference, model: googlenet, target_throughput: 500, gpu: T4}
  - {name: Chat, task: generation, model: meta-llama/Llama-3.1-8B, users: 40, gpu: "L4,L40S"}
  - {name: Tuning, task: finetuning, model: meta-llama/Llama-3.1-8B, tokens: 1e6, gpu: L40S}
"""


@pytest.fixture
def mixed(tmp_path, told):
    """The report on a plan of a network and two language models, saved."""
    plan, saved = tmp_path / "plan.yaml", tmp_path / "report.json"
    plan.write_text(PLAN)
    saved.write_text(told("report", "--plan", str(plan), "--date", "2026-11-22", "--format", "json"))
    return saved


def test_a_plan_takes_networks_and_language_models_side_by_side(mixed):
    report = json.loads(mixed.read_text())
    validator().validate(report)
    sections = report["workloads"]
    assert [one["answer"]["spec"]["unit"] for one in sections] == ["images/s", "output tokens/s", "tokens/s"]
    assert all(one["complete"] and one["costs"]["choices"] and one["regions"] for one in sections)
    answered = [one["answer"]["spec"]["usd_per_hour"] for one in sections]
    assert report["totals"]["usd_per_hour"] == pytest.approx(sum(answered))
    served = sections[1]["answer"]["spec"]
    cost = sections[1]["recommendation"]["recommendation"]["cost"]["usd_per_million_output_tokens"]
    assert served["usd_per_million_samples"] == pytest.approx(cost["median"])
    assert len(report["reproducibility"]["language_predictors"]) == 2


def test_a_mixed_report_names_each_spec_in_every_format_and_is_sent(mixed, told, tmp_path):
    (tmp_path / "sent").mkdir()
    specs = [one["answer"]["spec"] for one in json.loads(mixed.read_text())["workloads"]]
    for end in ("html", "md", "csv", "xlsx"):
        out = tmp_path / f"report.{end}"
        told("report", "--from", str(mixed), "--out", str(out), "--send", f"file:{tmp_path}/sent/")
        content = out.read_bytes()
        assert (tmp_path / "sent" / out.name).read_bytes() == content
        if end == "xlsx":
            picks = list(openpyxl.load_workbook(out, data_only=True)["Totals"].values)[5:8]
            assert [pick[2] for pick in picks] == [spec["instance_type"] for spec in specs]
            continue
        assert all(spec["instance_type"] in content.decode() for spec in specs)
        assert all(name in content.decode() for name in ("Thumbnails", "Chat", "Tuning"))


def test_another_load_changes_the_answer_in_a_report_diff(mixed, told, tmp_path):
    (tmp_path / "plan.yaml").write_text(PLAN.replace("users: 40", "users: 400"))
    later = told("report", "--plan", str(tmp_path / "plan.yaml"), "--format", "json")
    (tmp_path / "later.json").write_text(later)
    text = told("report", "diff", str(mixed), str(tmp_path / "later.json"))
    assert "1 of 3 workloads" in text
    assert "asked: users 40 -> 400" in text
    assert "output tokens/s" in text


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("model: meta-llama/Lama-3.1-8B", "did you mean meta-llama/"),
        ("model: meta-llama/Llama-3.1-8B, epochs: 3", "epochs goes with task training"),
        ("model: meta-llama/Llama-3.1-8B, live: true", "live is one for all workloads"),
        ("users: 3", "name one language model"),
        ("model: meta-llama/Llama-3.1-8B, users: many", "users"),
    ],
)
def test_what_is_wrong_with_a_language_model_of_a_plan_has_its_line(tmp_path, capsys, line, said):
    plan = tmp_path / "plan.yaml"
    plan.write_text(f"workloads:\n- {{name: Chat, task: generation, {line}}}\n")
    assert run(["report", "--plan", str(plan)]) == 2
    error = capsys.readouterr().err
    assert "line 2: workload 'Chat': " in error
    assert said in error.replace("--", "")


def test_todays_prices_are_asked_for_networks_alone(tmp_path, capsys):
    plan = tmp_path / "plan.yaml"
    plan.write_text(PLAN)
    assert run(["report", "--plan", str(plan), "--live"]) == 2
    assert "--live goes with --task training" in capsys.readouterr().err


def test_a_saved_answer_is_told_again_in_another_language(told, tmp_path):
    saved = tmp_path / "answer.json"
    saved.write_text(told(*ASK, "-o", "json"))
    text = told("report", "--from", str(saved), "--language", "zh-CN")
    assert "词元" in text
    assert "Project-Id-Version" not in text


def test_a_report_says_the_command_that_asks_again(told):
    text = told("report", *ASK[1:])
    commands = [line for line in text.splitlines() if line.startswith("advisor ")]
    assert [command.split()[1] for command in commands] == ["recommend", "report"]
    assert all("--users 16" in command and "--task generation" in command for command in commands)


@pytest.mark.parametrize("card", ["RTX 3090", "RTX 4090", "RTX 5090"])
def test_a_desk_with_two_cards_may_ask_for_their_memory(told, card):
    """No instance of the list has two of them: memory is of cards, whoever owns them."""
    words = ["memory", *SERVE, "--gpu", card, "--tensor-parallel", "2", "-o", "json"]
    (row,) = json.loads(told(*words))["gpus"]
    assert (row["tensor_parallel"], row["fits"]) == (2, True)


def test_prompts_cost_the_same_before_short_and_long_answers(told):
    """20 prompts of 4,000 tokens a second are 1.29 PFLOP/s, whatever is answered: as many GPUs
    for one token as for sixteen, whose dense peak is above that."""
    words = [
        "recommend",
        *SERVE,
        *shlex.split("--input-tokens 4000 --target-requests-per-s 20 --max-ttft-ms 2000 --max-count"),
        *shlex.split("20 --gpu L40S,H100,L4 --allow-extrapolation -o json --output-tokens"),
    ]
    usd = []
    for tokens in ("1", "2", "4", "16"):
        found = json.loads(told(*words, tokens))["recommendation"]
        usd.append(found["price"]["total_usd_per_hour"])
        assert found["serving"]["rates"]["ttft_seconds"]["upper"] <= 2
    assert min(usd) > 15
    assert max(usd) <= 1.35 * min(usd)
