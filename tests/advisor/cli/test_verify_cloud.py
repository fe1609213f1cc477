"""`advisor verify --on aws`: AWS is moto's, the instances' work is done for real, here."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import sys
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from advisor.answers.reporting.saved import first_fault
from advisor.domain import Task
from advisor.infra.aws.asking import Clock
from advisor.infra.aws.guest.metadata import Metadata
from advisor.runs.cloud.agent import Guest, run_job
from advisor.store.measurements import open_store
from tests.advisor.cli.test_sweep_cloud import after_launch, sent
from tests.infra.aws.bed import Bed, worn
from tests.infra.aws.guest.sandbox import serving
from tests.sweeps.builders import measurement, resources, trial
from tests.sweeps.measure.endpoint.tiny_model import program, save_tiny_llama

# A machine as small as this one, without a GPU: preprocessing needs none.
QUESTION = (
    *shlex.split("verify --task preprocessing --model googlenet --batch-size 16 --samples 400"),
    *shlex.split("--minutes 0.1 --target-throughput 5"),
)
ON_AWS = (*QUESTION, "--on", "aws", "--budget", "1USD", "--owner", "ada", "--instance-profile", "none")
SMALL = ("--instance", "c5.large", "--disk", "gp3:200GiB")


def guest_that_works(bed: Bed, folder: Path, **changes: Any) -> list[tuple[str, ...]]:
    """The instance does its job a minute after its launch; the commands that it will have run."""
    jobs: list[tuple[str, ...]] = []

    def work(machine: Any) -> None:
        aws = bed.aws().by(Clock())
        job = f"sweeps/{worn(machine)['advisor:sweep-id']}/{machine.instance_type}/job.json"
        with serving() as service:
            service.told["meta-data/instance-id"] = machine.id
            (folder / "disk").mkdir(parents=True)
            guest = Guest(
                aws=aws,
                metadata=Metadata(service.address),
                folder=folder,
                mount=lambda job: jobs.append(job.arguments) or {"gp3": folder / "disk"},
                advisor=(sys.executable, "-m", "advisor"),
                poll_seconds=0.2,
                **changes,
            )
            later = datetime.now(UTC) + timedelta(hours=1)
            run_job(f"s3://results/{job}", "us-east-1", later, guest)
        bed.end(machine.id, "Client.InstanceInitiatedShutdown")

    after_launch(bed, 1, work)
    return jobs


@pytest.mark.slow
@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, as a guest has it, to hold limits")
def test_what_an_instance_measured_is_held_to_the_prediction_and_joins_the_store(
    ask, account, tmp_path
) -> None:
    jobs = guest_that_works(account, tmp_path / "guest")
    code, out, err = ask(*ON_AWS, *SMALL, "-o", "json")
    document = json.loads(out)
    assert (code, first_fault(document, "advisor.verification/1")) == (0, None)
    assert (document["verdict"], document["instance_type"]) == ("pass", "c5.large")
    assert document["predicted"]["throughput"]["median"] > 0
    assert not document["settles"]  # this machine's firmware does not call it one
    assert ("c5.large" in err, "all of it is ended" in err) == (True, True)
    assert account.left() == []
    with closing(open_store()) as store:
        (row,) = store.read().measurements
    assert row.trial.trial_id == document["measured"]["trial_id"]
    assert row.trial.dataset_path.startswith(str(tmp_path / "guest" / "disk"))
    assert any(word.startswith("--disk=") for word in jobs[0])


INFERENCE = ("--task", "inference", "--model", "googlenet", "--target-throughput", "500")
BOUGHT = ("--confidence", "0.9", "--on", "aws", "--instance-profile", "none")


def test_without_a_type_the_recommended_spec_is_planned_and_an_engine_with_the_answers_words(
    ask, account, answer
) -> None:
    def planned(*words: str) -> Any:
        document = json.loads(ask(*words, "--dry-run", "-o", "json")[1])
        assert first_fault(document, "advisor.cloud-plan/1") is None
        return document

    chosen = answer("recommend", *INFERENCE)["recommendation"]
    document = planned("verify", *INFERENCE, *BOUGHT, "--budget", "1USD", "--max-latency-ms", "500")
    command = document["command"]
    assert command[:2] == ["advisor", "verify"]
    assert {f"--instance={chosen['instance_type']}", "--max-latency-ms=500"} <= set(command)
    assert {offer["instance_type"] for offer in document["offers"]} <= {chosen["instance_type"]}
    assert account.instances() == []
    document = planned(*SERVED)
    command = document["command"]
    assert command[:2] == ["advisor", "measure"]
    assert {"--engine=vllm", "--concurrency=2", "--gpu=L4"} <= set(command)
    assert [volume["type"] for volume in document["volumes"]] == ["gp3"]
    assert account.instances() == []


SERVED = (
    *shlex.split("verify --task generation --model meta-llama/Llama-3.1-8B --users 2"),
    *shlex.split("--input-tokens 60 --output-tokens 10 --max-tpot-ms 2000 --minutes 0.4"),
    *shlex.split("--instance g6.xlarge --allow-extrapolation --on aws --budget 3USD --owner ada"),
    *shlex.split("--instance-profile none"),
)


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_language_model_is_served_on_the_instance_and_its_load_comes_back(
    answer, ask, account, tmp_path, monkeypatch
) -> None:
    """`transformers serve` computes behind vLLM's name, or vLLM itself where it is installed."""
    pytest.importorskip("transformers")
    asked_for: list[str] = []

    def install(package: str, folder: Path) -> Path:
        asked_for.append(package)
        result = shutil.which("vllm")
        return Path(result).parent if result else program(folder, "vllm").parent

    jobs = guest_that_works(account, tmp_path / "guest", install=install)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setenv("VLLM_CPU_KVCACHE_SPACE", "1")
    monkeypatch.chdir(tmp_path)
    model = str(save_tiny_llama(tmp_path / "tiny"))
    code, out, err = ask(*SERVED, "--served-model", model, "-o", "json")
    assert code == 0, err
    document = json.loads(out)
    assert first_fault(document, "advisor.serving-verification/1") is None
    assert (document["verdict"], document["instance_type"]) == ("pass", "g6.xlarge")
    assert not document["settles"]
    assert "no driver there says that the endpoint runs on L4" in document["caveats"]
    assert "all of it is ended" in err
    assert account.left() == []
    assert asked_for[0].startswith("vllm[runai]==")
    own = jobs[0][jobs[0].index("--") :]
    assert {"--max-model-len", "--gpu-memory-utilization", "--load-format"} <= set(own)
    # What came back is an anchor that answers, as one that was measured by hand.
    question = ("recommend", *SERVED[1:11], "--cloud", "aws")
    result = answer(*question, "--anchor", "anchor-Llama-3.1-8B.json")
    assert result["recommendation"]["predicted"]["provenance"] == "anchored"


ASK = ("verify", *INFERENCE, *BOUGHT, "--budget", "3USD", "--owner", "ada", "--top", "3")


def guests(bed: Bed, rates: dict[str, float], gpus: int = 1) -> dict[str, Any]:
    """Instances that send what their type reaches (images/s), by type; one without a rate fails its start."""
    kinds: dict[str, Any] = {}

    def finish(machine: Any) -> None:
        kind = machine.instance_type
        kinds[kind] = machine
        if kind not in rates:
            bed.end(machine.id, "Client.InstanceInitiatedShutdown")
            return
        row = measurement(
            trial=trial(
                task=Task.INFERENCE if gpus == 1 else Task.TRAINING,
                accelerator="cuda:T4",
                resources=resources(vcpus=float(len(kinds)), gpu_count=gpus),  # each its own trial
            ),
            step_seconds=(8 * gpus / rates[kind],) * 200,
            environment={"instance_type": kind},
        )
        sent(bed, machine, row, said="1 trial")

    after_launch(bed, 5, finish)
    return kinds


def planned(answer: Any) -> list[str]:
    """The types that a dry run names, cheapest first."""
    words = [word for plan in answer(*ASK, "--dry-run")["plans"] for word in plan["command"]]
    return [word.partition("=")[2] for word in words if word.startswith("--instance=")]


@pytest.mark.slow
def test_the_cheapest_that_reaches_it_is_taken_once_the_cheaper_one_has_missed(answer, account) -> None:
    first, second, third = planned(answer)
    assert account.instances() == []
    launched = guests(account, {first: 300.0, second: 900.0, third: 1200.0})
    document = answer(*ASK)
    assert (document["chosen"], document["settled"]) == (second, True)
    assert [candidate["verdict"] for candidate in document["candidates"]] == ["missed", "pass", "pass"]
    assert document["spent_usd"] < 3.0
    assert set(launched) == {first, second, third}
    assert account.left() == []
    with closing(open_store()) as store:
        assert len(store.read().measurements) == 3
