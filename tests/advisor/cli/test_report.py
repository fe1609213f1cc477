"""`advisor report` as users call it. `advisor report diff` and `--send` as a user types them."""

import copy
import importlib.util
import io
import json
import os
import re
import shlex
import signal
import subprocess
import sys
from itertools import chain
from pathlib import Path

import pytest

from advisor.cli import report as commands
from tests.advisor.render.sizing.reports import golden_report, validator
from tests.advisor.runs.delivery.servers import hook, postbox
from tests.processes import as_in_a_terminal

QUESTION = ("--task", "inference", "--model", "googlenet", "--target-throughput", "500", "--gpu", "T4,L4")
DAY = ("--date", "2026-11-22")
PLAN = """
title: Vision team
defaults: {gpu: T4}
workloads:
  - name: Thumbnails
    task: inference
    model: googlenet
    target_throughput: 500
  - task: training
    model: resnet50
    precision: amp
"""


@pytest.fixture
def plan(tmp_path):
    return str(_written(tmp_path / "team.yaml", PLAN))


@pytest.fixture
def document(shown):
    """A report as JSON, which keeps its schema."""

    def made(*words):
        result = json.loads(shown("report", *words, *DAY, "--format", "json", quiet=True))
        validator().validate(result)
        return result

    return made


def test_specs_that_no_curve_draws_are_compared_by_their_own_price(shown):
    words = ["--task", "inference", "--model", "bert-base-uncased", "--target-throughput", "800"]
    out = shown("report", *words, "--cloud", "azure", "--region", "eastus", "--market", "spot", *DAY)
    compared = out.split("### What was compared")[1].split("###")[0]
    assert compared.count("also meets it") >= 3
    assert "| also meets it |  |" not in compared


def test_the_end_of_the_file_names_the_format(ask, tmp_path):
    for name in ("csv", "json", "md"):
        out = tmp_path / f"report.{name}"
        assert ask("report", *QUESTION, *DAY, "--out", str(out)) == (0, "", f"wrote {out}\n")
        assert out.stat().st_size > 1000


def test_the_command_in_a_report_gives_the_same_report(document, ask):
    first = document(*QUESTION, "--title", "It's <mine> & 图")
    words = shlex.split(first["reproducibility"]["command"])
    assert words[:2] == ["advisor", "report"]
    code, out, _ = ask(*words[1:], "--format", "json")
    assert (code, json.loads(out)) == (0, first)


def test_the_command_of_a_workload_asks_it_alone(document, answer, plan):
    result = document("--plan", plan)
    for workload in result["workloads"]:
        alone = answer(*shlex.split(workload["command"])[1:])
        assert alone["request"] == workload["recommendation"]["request"]
        assert alone["recommendation"] == workload["recommendation"]["recommendation"]


def test_a_file_whose_name_is_no_text_can_be_read_and_written(document, ask, tmp_path):
    odd = os.fsdecode(os.fsencode(tmp_path) + b"/\xff.yaml")
    Path(odd).write_text(PLAN.replace("title: Vision team", ""))
    result = document("--plan", odd)
    assert result["title"] == "\ufffd"
    assert result["reproducibility"]["inputs"][0]["name"].endswith("\ufffd.yaml")
    assert ask("report", "--plan", odd, "--out", odd.replace("yaml", "csv"))[0] == 0


THREAD_COUNTS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS")


@pytest.mark.parametrize(("name", "package"), [("pdf", "weasyprint"), ("xlsx", "xlsxwriter")])
def test_a_missing_package_is_told_before_the_work(stderr, monkeypatch, tmp_path, name, package):
    monkeypatch.setattr(commands, "_report_document", lambda *_: pytest.fail("worked"))
    there = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda item: None if item == package else there(item))
    said = stderr("report", *QUESTION, "--out", tmp_path / f"a.{name}")
    assert f"need {package}; install it: " in said


@pytest.mark.slow
@pytest.mark.parametrize(("sent", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_an_interrupted_report_leaves_no_file(tmp_path, sent, code):
    workloads = [
        {"task": "inference", "model": name, "confidence": sure, "target_throughput": 200}
        for name in ("googlenet", "resnet50", "vgg16", "alexnet", "inception_v3")
        for sure in (0.9, 0.91, 0.92, 0.93, 0.94, 0.95)
    ]
    os.mkfifo(tmp_path / "team.yaml")
    out = tmp_path / "team.md"
    out.write_text("old")
    command = [sys.executable, "-m", "advisor.cli.main", "report", "--plan", "team.yaml", "--out", "team.md"]
    # NumPy's threads may hear a signal that the first one blocks.
    environment = {key: item for key, item in os.environ.items() if key not in THREAD_COUNTS}
    how = {"stderr": subprocess.PIPE, "text": True, "env": environment, "preexec_fn": as_in_a_terminal}
    child = subprocess.Popen(command, cwd=tmp_path, **how)
    # Whoever writes into the pipe waits until the command reads its plan.
    (tmp_path / "team.yaml").write_text(json.dumps({"workloads": workloads}))
    child.send_signal(sent)
    said = child.communicate(timeout=60)[1]
    assert child.returncode == code
    assert len(said.split("\n")) <= 3  # click ends the line that Ctrl-C is shown in
    assert said.strip() in ("advisor: interrupted", "advisor: terminated")
    assert (out.read_text(), {file.name for file in tmp_path.iterdir()}) == ("old", {"team.md", "team.yaml"})


DIFF = ("report", "diff")


@pytest.fixture
def saved(tmp_path):
    """October's and November's report."""
    old = golden_report()
    new = copy.deepcopy(old)
    new["workloads"][0]["recommendation"]["recommendation"]["price"]["total_usd_per_hour"] *= 0.5
    new["as_of"] = "2026-12-22"
    for name, item in (("old", old), ("new", new)):
        (tmp_path / f"{name}.json").write_text(json.dumps(item))
    return str(tmp_path / "old.json"), str(tmp_path / "new.json")


def test_differences_end_with_0_unless_the_code_is_asked_for(ask, saved, shown):
    old, new = saved
    assert "became 50 % cheaper" in shown(*DIFF, old, new)
    assert ask(*DIFF, old, new, "--exit-code")[0] == 1
    assert ask(*DIFF, old, old, "--exit-code")[0] == 0


def test_an_error_is_never_taken_for_a_change(ask, saved, tmp_path):
    """1 means changed: what cannot be read or written is 2 or 128."""
    old, new = saved
    assert ask(*DIFF, old, str(tmp_path / "none.json"), "--exit-code")[0] == 2
    out = str(tmp_path / "no" / "folder" / "out.txt")
    assert ask(*DIFF, old, new, "--exit-code", "--out", out)[0] in (2, 128)


def test_the_formats_tell_the_same(saved, shown, tmp_path):
    old, new = saved
    assert json.loads(shown(*DIFF, old, new, "-o", "json"))["changed"] is True
    assert shown(*DIFF, old, new, "-o", "md", "--out", tmp_path / "d.md") == ""
    assert (tmp_path / "d.md").read_text().startswith("# What changed from 2026-11-22")


def test_one_side_may_come_from_stdin(ask, saved, monkeypatch):
    old, new = saved
    content = Path(old).read_bytes()
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))
    assert ask(*DIFF, "-", new)[0] == 0
    assert ask(*DIFF, "-", "-")[0] == 2


def test_a_difference_goes_to_a_webhook_and_by_mail(ask, saved):
    """Both at once; on a terminal only where it went is told."""
    with hook() as server, postbox() as box:
        to = f"smtp://127.0.0.1:{box.port}?to=team@example.com&from=advisor@example.com"
        code, out, err = ask(*DIFF, *saved, "--send", server.url, "--send", to)
    message = json.loads(server.got[0][2])
    assert (message["kind"], message["document"]["schema"]) == ("report-diff", "advisor.report-diff/1")
    assert "became 50 % cheaper" in message["text"]
    assert b"report-diff-2026-12-22.txt" in box.got[0][2]
    assert (code, out) == (0, "")
    assert f"sent to http://127.0.0.1:{server.server_port}/.." in err
    assert "secret-path" not in err


def test_a_report_is_sent_in_its_format_and_never_tells_the_target(shown, saved, tmp_path):
    """The command in the report leaves the target out: its address may be a secret."""
    with hook() as server:
        sends = ("--send", f"file:{tmp_path}/sent-{{date}}.xlsx", "--send", server.url)
        assert shown("report", "--from", saved[0], *sends) == ""
    assert (tmp_path / "sent-2026-11-22.xlsx").read_bytes().startswith(b"PK")
    assert b"secret-path" not in server.got[0][2]
    assert json.loads(server.got[0][2])["document"] == golden_report()


def test_a_delivery_that_fails_is_told_and_what_was_written_stays(stderr, saved, tmp_path):
    out = tmp_path / "report.md"
    with hook([(404, {}, b"no such hook")]) as server:
        err = stderr("report", "--from", saved[0], "--out", out, "--send", server.url, code=1)
    assert "answered 404: no such hook" in err
    assert out.exists()


def test_a_saved_answer_is_told_in_chinese_and_one_without_parameters_still_opens(answer, shown, tmp_path):
    saved, file = answer("recommend", *QUESTION, "--market", "any"), tmp_path / "saved.json"
    file.write_text(json.dumps(saved))
    sentences = [*saved["warnings"], *saved["assumptions"], *(row["detail"] for row in saved["rejected"])]
    sentences += saved["decision"]["sentences"]
    told = shown("report", "--from", file, "--language", "zh-CN")
    assert [sentence for sentence in sentences if sentence in told] == []
    del saved["messages"]
    file.write_text(json.dumps(saved))
    told = shown("report", "--from", file, "--language", "zh-CN")
    assert any(sentence in told for sentence in saved["assumptions"])


def test_a_plan_says_how_often_it_runs(shown, stderr, document, tmp_path):
    file = _written(tmp_path / "often.yaml", PLAN + "    epochs: 2\n    runs_per_month: 4\n")
    totals = document("--plan", str(file))["totals"]
    assert totals["month_with_runs_usd"] == pytest.approx(totals["month_usd"] + 4 * totals["run_usd"])
    # A total names what it leaves out.
    once = "  - {name: Once, task: training, model: resnet50, precision: amp, epochs: 1}\n"
    never = "  - {name: Never, task: inference, model: googlenet, max_price: 0.01}\n"
    file.write_text(f"{file.read_text()}{once}{never}")
    told = shown("report", "--plan", file, *DAY)
    assert "for the planned runs of 2. resnet50 training" in told
    assert r"a month, without Never (nothing fits) and Once (no runs\_per\_month given)." in told
    assert "| **Total of Thumbnails and 2. resnet50 training** |" in told
    assert "Runs may cost more than expected: up to" in told
    file.write_text(PLAN + "    runs_per_month: 4\n")
    said = "line 12: workload '2. resnet50 training': runs_per_month counts runs, and this workload stays on"
    assert said in stderr("report", "--plan", file)


def test_a_plan_says_how_many_hours_a_month_it_needs_what_does_not_stay_on(shown, stderr, document, tmp_path):
    """Its months, savings and totals count these hours; a commitment owes all 730."""
    whole, file = document("--plan", str(_written(tmp_path / "whole.yaml", PLAN))), tmp_path / "office.yaml"
    file.write_text(PLAN.replace("_throughput: 500", "_throughput: 500\n    hours_per_month: 200"))
    part = document("--plan", str(file))
    (usual, other), (office, same) = whole["workloads"], part["workloads"]
    usd = usual["answer"]["spec"]["usd_per_hour"]
    assert office["answer"]["spec"]["usd_per_month"] == pytest.approx(200 * usd)
    assert same["answer"] == other["answer"]
    assert part["totals"]["month_usd"] == pytest.approx(whole["totals"]["month_usd"] - 530 * usd)
    for was, now in zip(usual["costs"]["choices"], office["costs"]["choices"], strict=True):
        hours = 730 if was["market"].startswith("commitment") else 200
        assert now["usd_per_month"] == pytest.approx(hours * was["usd_per_hour"])
        paid = was["usd_per_million_samples"] * hours / 200
        assert now["usd_per_million_samples"] == pytest.approx(paid)
    whole_quota, quota = (made["totals"]["quotas"][0] for made in (whole, part))
    taken = office["answer"]["spec"]["count"] * office["answer"]["spec"]["vcpus"]
    assert quota["kept_vcpus"] == whole_quota["kept_vcpus"] - taken
    assert quota["vcpus"] == whole_quota["vcpus"]
    told = shown("report", "--plan", file, *DAY)
    assert f"\\${200 * usd:,.0f} for 200 hours a month." in told
    assert "a month for Thumbnails (200 hours a month)" in told
    assert "A 1-year commitment for 2. resnet50 training saves" in told
    files = [_written(tmp_path / f"{n}.json", json.dumps(made)) for n, made in enumerate((whole, part))]
    change = f"hours a month: not set -> 200 (${730 * usd:,.0f} -> ${200 * usd:,.0f} a month)"
    assert change in shown("report", "diff", *files)
    file.write_text(PLAN + "    epochs: 2\n    hours_per_month: 200\n")
    said = "hours_per_month is for what stays on, and this workload ends; give runs_per_month"
    assert said in stderr("report", "--plan", file)


def test_a_commitment_that_a_plan_hardly_uses_says_that_on_demand_costs_less(shown, tmp_path):
    plan = PLAN.replace(
        "_throughput: 500", "_throughput: 500\n    market: commitment-1y\n    hours_per_month: 200"
    )
    text = shown("report", "--plan", _written(tmp_path / "office.yaml", plan), *DAY)
    assert re.search(r"- Thumbnails uses 27 % of its commitment: on demand \\\$\d+ a month.", text)
    assert re.search(r"200 hours a month use 27 % of it; on demand they would cost \\\$\d+ a month", text)
    # The answer's dollars per million samples are those of its row.
    (usd,) = re.findall(r"\| \*\*commitment, 1 year\*\* \|(?:[^|]*\|){2} \$([\d.]+)", text)
    (said,) = re.findall(r"sure of at least \d+; \\\$([\d.]+) per million samples", text)
    assert float(said) == pytest.approx(float(usd), abs=0.006)


def _written(file, text):
    file.write_text(text)
    return file


def test_the_sums_that_a_plan_shows_are_those_of_its_rows(shown, tmp_path):
    """Each cost is rounded: a sum of the unrounded ones may be another by a dollar or two."""
    rows = "".join(
        f"  - {{name: W{rate}, task: inference, model: googlenet, target_throughput: {rate}}}\n"
        for rate in (500, 1500, 2500, 3500)
    )
    told = shown("report", "--plan", _written(tmp_path / "many.yaml", f"workloads:\n{rows}"), *DAY)
    months = [float(usd.replace(",", "")) for usd in re.findall(r"^\| W\d+ .* \$([\d,.]+) \|$", told, re.M)]
    assert len(months) == 4
    assert f"| **${sum(months):,.0f}** |" in told
    assert f"**\\${sum(months):,.0f} a month for 4 workloads" in told


def test_a_long_report_for_a_comment_keeps_costs_and_next_steps(shown, tmp_path):
    rates = range(500, 3500, 500)
    rows = "".join(
        f"  - {{task: inference, model: googlenet, target_throughput: {rate}}}\n" for rate in rates
    )
    told = shown("report", "--plan", _written(tmp_path / "long.yaml", f"workloads:\n{rows}"), *DAY)
    assert len(told) < 60_000
    assert "Shortened to what fits into a comment on GitHub: the appendices are in" in told
    assert "## Appendix" not in told
    assert told.count("### What to do next") == told.count("### What it costs") == len(rates)


def test_an_earlier_day_gives_no_negative_age(shown):
    told = shown("report", *QUESTION, "--date", "2026-06-01")
    assert "| after the report's day |" in told
    assert not re.search(r"-\d+ days", told)


RUN = ("--task", "training", "--model", "resnet50", "--epochs", "90")


def test_a_run_names_what_costs_the_same_what_its_trial_proves_and_what_to_do_a_line_each(shown):
    told = shown("report", *RUN, *DAY)
    (row,) = (line for line in told.splitlines() if line.startswith("- Or take:"))
    assert re.search(r"2xlarge \(1 x .*\) \\\$[\d.]+, [\d]+ h.*: nearly the same cost, but slower; ", row)
    usd = [float(each) for each in re.findall(r"\$([\d.]+)", row)]
    assert usd == sorted(usd)  # in one format, the cheapest first
    assert row.count("nearly the same cost") == 1
    assert "at the lowest cost per run (of nearly equal costs, the quickest run)\n" in told
    assert "No price is known for spot." in told
    basis = (
        r"Based on weak evidence \(wide bounds, typical error \d+.%\): .* lower bound held in \d+.% of such"
    )
    assert re.search(basis, told)
    rate = re.search(r"It passes at ([\d,]+) images/s, the rate promised above", told)[1]
    assert f"--target-throughput {rate.replace(',', '')} " in told
    trial = re.search(r"run the trial below: 10 min, \\\$([\d.]+) of rent\.", told)[1]
    hourly = re.search(r"disk at \\\$([\d.]+)/h", told)[1]
    assert float(trial) == pytest.approx(float(hourly) / 6, abs=0.01)
    assert "On the day you rent, ask again at that day's prices.\n" in told
    assert "Add --export terraform for the file that starts the machine.\n" in told


def test_a_plan_says_once_how_far_to_trust_and_which_cost_is_the_lowest(shown, tmp_path):
    """Users who fit are a target; a weak chance is called unproven beside what its trial costs; a bound in
    dollars names the day of its price, and what a moved price would make of it."""
    file = tmp_path / "spot.yaml"
    weekly = "  - {name: Weekly, task: training, model: resnet50, epochs: 90, runs_per_month: 4}\n"
    chat = "  - {name: Chat, task: generation, model: meta-llama/Llama-3.1-8B, users: 40}\n"
    file.write_text(PLAN.replace("gpu: T4", "market: spot") + weekly + chat)
    told = shown("report", "--plan", file, *DAY).replace("\u00a0", " ")
    assert re.search(r"\| Thumbnails .* \| \d+ %, unproven \| weak \|", told)
    assert re.search(r"little was measured\. Before you rely on them, try: Thumbnails \(10 min, \\\$0", told)
    assert re.search(r"\| Chat .* \| 40 users fit \|", told)
    assert "- How sure: 40 users fit; 90 % sure of at least" in told
    assert "- On: each 1 x L4" in told
    assert "- Has: each 1 x L4" in told
    rose = (
        r"up to \\\$[\d.]+ \(.*\) for Weekly if it runs long, or \\\$([\d.]+) \(.* a month\) if its price of"
    )
    most = re.search(rose, told)[1]
    span = re.search(r"In all .* a month \(\\\$[\d.,]+ to \\\$[\d.,]+ if prices have moved\)\.", told)
    assert span
    assert "At firm prices" not in told
    assert re.search(r"Chat with --precision fp8: .* a month, not .*; its answers may change\.", told)
    assert "(in a plan, cloud: any under defaults, and no region)." in told
    file.write_text(file.read_text().replace("market: spot", "market: any"))
    told = shown("report", "--plan", file, *DAY)
    firm = re.search(r"At firm prices: Thumbnails (\S+) \\\$(\d+) a month", told)
    assert firm
    assert f"{firm[1]}, on-demand, " in told
    assert f"\\${most}." in told.partition("## Weekly")[2]  # the range beside the cost of the run
    for per in ("month", "run", "million samples, as no target is given"):
        assert f"at the lowest cost per {per}\n" in told


def test_a_plan_names_the_way_to_todays_prices_and_no_unsure_machine_as_the_safe_one(shown, tmp_path):
    file = tmp_path / "limited.yaml"
    file.write_text(PLAN.replace("gpu: T4", "region: us-east-1") + "    epochs: 30\n    max_cost: 25\n")
    told = shown("report", "--plan", file, *DAY)
    assert "The oldest list price of an instance is of" in told
    assert "ask for today's with --live." in told
    assert re.search(r"Try it first \(10 min, \\\$[\d.]+\)\.\n", told)
    chat = "  - {task: generation, model: meta-llama/Llama-3.1-8B, users: 4}\n"
    file.write_text(file.read_text() + chat)
    told = shown("report", "--plan", file, *DAY)
    assert "advisor catalog refresh --cloud aws --region us-east-1 fetches today's." in told
    assert "with --live." not in told


def test_a_cheaper_disk_of_the_pick_is_called_the_same_instance_and_live_prices_stand_on_the_first_page(
    shown, answer, tmp_path
):
    saved = answer("recommend", *QUESTION)
    pick = saved["recommendation"]
    call = {field: pick[field] for field in ("cloud", "region", "market", "instance_type", "count")}
    call |= {"kind": "cheaper_may_reach", "disk": "gp3:200GiB", "usd_per_hour": 0.5, "probability": 0.8}
    call |= {"instead_of": pick["instance_type"], "saves_usd_per_hour": 0.2, "saves_usd_per_month": 146.0}
    trial = {"instance_type": pick["instance_type"], "command": "advisor verify", "minutes": 10, "usd": 0.1}
    saved["close_calls"] = [
        call | {"trial": trial, "horizon_hours": 730, "expected_usd": 9.0, "saves_usd_per_run": None}
    ]
    why = "not verified live (offerings): no AWS credentials"
    saved["live"] = {"as_of": saved["as_of"], "checked": [], "warnings": [why]}
    file = _written(tmp_path / "answer.json", json.dumps(saved))
    told = shown("report", "--from", file, *DAY)
    assert "The same instance with gp3:200GiB is cheaper, at $0.500/h".replace("$", "\\$") in told
    assert why.capitalize()[:20] in told.partition("## Appendix")[0]


def test_a_horizon_is_no_matter_of_the_chart(shown):
    assert shown("report", *QUESTION, "--horizon-hours", "176", *DAY).startswith("# googlenet")


def test_a_commitment_for_a_run_counts_by_the_month_of_its_whole_term(shown, document, tmp_path):
    file = tmp_path / "committed.yaml"
    file.write_text(
        PLAN.replace("gpu: T4", "gpu: T4, market: commitment-1y") + "    epochs: 2\n    runs_per_month: 4\n"
    )
    made = document("--plan", str(file))
    totals, (kept, run) = made["totals"], made["workloads"]
    months = [section["answer"]["spec"]["usd_per_month"] for section in (kept, run)]
    assert totals["month_with_runs_usd"] == pytest.approx(sum(months))
    assert totals["usd_per_hour_by_market"]["commitment-1y"] == pytest.approx(sum(months) / 730)
    assert totals["run_usd"] is None
    told = shown("report", "--plan", file, *DAY)
    assert "owed whether it runs or not" in told
    assert f"It is owed for the whole term, used or not: \\${12 * months[1]:,.0f} in all." in told
    (saving,) = re.findall(
        r"\| \*\*commitment, 1 year\*\* \| .* \| (-?[\d,]+)\s% \|", told.split("## 2. resnet50")[1]
    )
    on_demand = next(row for row in run["costs"]["choices"] if row["market"] == "on-demand")
    hours = 4 * run["recommendation"]["recommendation"]["run"]["hours"]["median"]
    left = 100 * (1 - months[1] / (hours * on_demand["usd_per_hour"]))
    assert float(saving.replace(",", "")) == pytest.approx(left, abs=1)
    assert "--horizon-hours" not in told  # nobody wrote it: it follows from the plan
    brief = shown(
        "recommend",
        *["--task", "training", "--model", "resnet50", "--epochs", "2", "--market", "commitment-1y"],
    )
    assert " a month   aws us-east-1, commitment-1y" in brief
    assert "for the run" not in brief


def test_a_run_on_a_commitment_ranks_by_the_term_that_it_owes(shown, answer, tmp_path):
    """The cheapest machine that ends in time, not the one with the cheapest sample, since all hours are owed;
    as many runs as a month has hours for need a quicker one."""
    words = ["--task", "training", "--model", "resnet50", "--epochs", "90", "--market", "commitment-1y"]
    chosen, *others = (made := answer("recommend", *words))["recommendation"], *made["alternatives"]
    within = [spec for spec in (chosen, *others) if spec["run"]["hours"]["median"] <= 730]
    hourly = [spec["price"]["total_usd_per_hour"] for spec in within]
    assert len(within) > 1
    assert hourly[0] == min(hourly)
    assert chosen["run"]["usd"]["median"] > min(spec["run"]["usd"]["median"] for spec in others)
    hours, usd = chosen["run"]["hours"]["median"], hourly[0]
    file = tmp_path / "committed.yaml"

    def planned(runs):
        file.write_text(
            "workloads: [{name: Weekly, task: training, model: resnet50, epochs: 90, market: commitment-1y, "
            f"runs_per_month: {runs}}}, {{task: inference, model: googlenet}}]"
        )
        return shown("report", "--plan", file, *DAY).replace("\u00a0", " ")

    few, many = planned(1), planned(int(730 / hours) + 1)
    assert f"Weekly uses {100 * hours / 730:.0f} % of its commitment: on demand" in few
    assert f"| Weekly | {chosen['instance_type']} |" in few
    assert f"| Weekly | {chosen['instance_type']} |" not in many
    assert f"One run uses {hours:.0f} h of its 8,760 hours" in shown("report", *words, *DAY)
    assert f"It is owed for the whole term, used or not: \\${8760 * usd:,.0f} in all." in few
    assert "Weekly may take" in planned(int(730 / hours))  # its longest time is more than a month has


def test_a_trial_of_one_gpu_aims_at_its_share_and_is_as_sure_as_the_answer(document, answer):
    """Four GPUs lose a little to each other: the share of one is more than a quarter, and no more than its
    bound where the answer is sure."""
    asked = ("--task", "training", "--model", "resnet50")
    (section,) = document(*asked, "--market", "spot", "--epochs", "30", "--max-hours", "24")["workloads"]
    spec, words = section["recommendation"]["recommendation"], shlex.split(section["trial_command"])
    given = dict(zip(words[2::2], words[3::2], strict=True))
    used, target = spec["predicted"]["gpus_used"], float(given["--target-throughput"])
    needed = 30 * 1_281_167 / (24 - 1 / 6) / 3600
    assert used > 1
    assert given["--max-gpus"] == "1"
    assert needed / used <= target < 1.3 * needed / used
    same = {name: given[name] for name in ("--instance", "--batch-size", "--precision", "--max-gpus")}
    alone = answer("predict", *asked, *chain(*same.items()))
    assert (spec["probability"] >= 0.9) == (alone["predicted"]["throughput"]["lower"] >= target)


def test_what_belongs_to_another_command_is_named_and_o_is_the_format(shown, stderr):
    asked = ("--task", "training", "--model", "vit_base_patch16_224", "--epochs", "1", "--market", "spot")
    report = json.loads(shown("report", *asked, "-o", "json"))
    assert report["workloads"][0]["trial_command"] is None, "`advisor verify` cannot run this network"
    assert "`advisor report --plan FILE`" in stderr("recommend", "--plan", "team.yaml")
    assert "`advisor recommend` exports one" in stderr("report", "--export", "terraform")
