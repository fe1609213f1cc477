"""What starts a spec: golden files, held against the tools' own rules."""

from __future__ import annotations

import json
import shlex
from functools import cache
from pathlib import Path

import botocore.session
import botocore.validate
import hcl2
import jsonschema
import kubernetes_validate
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from advisor.domain import Candidate, Cpu, DiskChoice, Market, NodeNetwork, Task
from advisor.domain.language import ServingPlacement
from advisor.errors import UsageError
from advisor.render.export import FORMATS, export
from advisor.render.export.serving import export_serving, serve_words
from tests.advisor.render.language_answers import generation_candidate, generation_recommendation
from tests.alike import assert_golden_text
from tests.builders import candidate

GOLDEN = Path(__file__).parents[2] / "golden" / "export"


def changed(base: Candidate | None = None, *, market: Market = Market.ON_DEMAND, **choice):
    """A candidate on another market, or with another disk; `local` has the instance's own."""
    base = base or candidate()
    disk = base.spec.disk
    if choice.pop("local", False):
        rate = replace(disk.rate, type="instance_store")
        disk = replace(disk, price=None, rate=rate, choice=DiskChoice(type="instance_store"))
    elif choice:
        disk = replace(disk, choice=DiskChoice(**choice), size_gib=choice["size_gib"])
    spec = replace(base.spec, disk=disk, offer=replace(base.spec.offer, market=market))
    return replace(base, spec=spec)


def on_instance(count: int = 1, **facts) -> Candidate:
    """A candidate whose instance is another one in some facts."""
    base = candidate()
    offer = replace(base.spec.offer, instance=replace(base.spec.offer.instance, **facts))
    return replace(base, spec=replace(base.spec, count=count, offer=offer))


def training_together() -> Candidate:
    """On three nodes."""
    candidate = on_instance(count=3, network=NodeNetwork(gbit_per_second=5.0, cards=1, source="EC2"))
    return replace(candidate, workload=replace(candidate.workload, task=Task.TRAINING))


PROVISIONED = {"type": "gp3", "size_gib": 200, "iops": 8000.0, "mib_per_second": 250.0}


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize(
    ("case", "exported"),
    [
        ("plain", changed()),
        ("spot", changed(market=Market.SPOT, **PROVISIONED)),
        ("local", changed(local=True)),
        ("three", on_instance(count=3)),
        ("nodes", training_together()),
    ],
)
def test_an_export_changes_only_when_we_mean_it(format: str, case: str, exported: Candidate) -> None:
    content = export(exported, format)
    assert_golden_text(GOLDEN / f"{format}-{case}.txt", content)


@cache
def run_instances_shape():
    """EC2's own description of the request; reading it takes a second, once."""
    model = botocore.session.get_session().get_service_model("ec2")
    return model.operation_model("RunInstances").input_shape


def parameters_of(command: str) -> dict:
    """What the AWS CLI would send: --block-device-mappings is BlockDeviceMappings."""
    lines = [line for line in command.splitlines() if not line.startswith("#")]
    words = shlex.split("\n".join(lines).replace("\\\n", " "))
    assert words[:3] == ["aws", "ec2", "run-instances"]
    options = dict(zip(words[3::2], words[4::2], strict=True))
    assert options.pop("--region") == "us-east-1"
    sent = {"MinCount": 1, "MaxCount": 1}
    for name, value in options.items():
        key = "".join(part.capitalize() for part in name.strip("-").split("-"))
        sent[key] = json.loads(value) if value[:1] in "[{" else value
    return sent


@settings(deadline=None)  # the first example reads that description
@given(
    market=st.sampled_from([Market.ON_DEMAND, Market.SPOT]),
    size=st.integers(1, 16384),
    iops=st.none() | st.integers(3000, 16000),
    disk=st.sampled_from(["gp2", "gp3", "io1", "io2", "st1", "sc1"]),
)
def test_the_aws_command_passes_the_services_own_validation(market, size, iops, disk) -> None:
    candidate = changed(market=market, type=disk, size_gib=size, iops=iops)
    sent = parameters_of(export(candidate, "awscli"))
    report = botocore.validate.ParamValidator().validate(sent, run_instances_shape())
    assert not report.has_errors(), report.generate_report()


SOME = pytest.mark.parametrize(
    "exported", [changed(), changed(local=True), changed(market=Market.SPOT), training_together()]
)


@SOME
def test_terraform_can_be_parsed_and_names_the_same_disk(exported: Candidate) -> None:
    document = hcl2.loads(export(exported, "terraform"))
    assert "aws_instance" in str(document["resource"])
    assert ("ebs_block_device" in str(document)) == (exported.spec.disk.price is not None)
    assert ("instance_market_options" in str(document)) == (exported.spec.offer.market is Market.SPOT)


@pytest.mark.slow
@SOME
def test_ray_accepts_the_cluster_file(exported: Candidate) -> None:
    from ray.autoscaler._private.util import prepare_config, validate_config

    validate_config(prepare_config(yaml.safe_load(export(exported, "ray"))))


@pytest.mark.parametrize(("iops", "tier"), [(3000.0, "medium"), (6000.0, "high"), (16000.0, "ultra")])
def test_skypilot_gets_the_slowest_tier_that_is_fast_enough(iops: float, tier: str) -> None:
    candidate = changed(type="gp3", size_gib=100.0, iops=iops)
    rate = replace(candidate.spec.disk.rate, read_iops=iops)
    disk = replace(candidate.spec.disk, rate=rate)
    text = export(replace(candidate, spec=replace(candidate.spec, disk=disk)), "skypilot")
    assert yaml.safe_load(text)["resources"]["disk_tier"] == tier
    assert str(candidate.spec.disk.choice) in text


def test_a_cloud_that_the_tool_does_not_know_is_refused_with_the_way_out() -> None:
    moved = on_instance(cloud="gcp")
    with pytest.raises(UsageError, match="--export skypilot"):
        export(moved, "terraform")
    assert "gcp/us-east-1" in export(moved, "skypilot")


@pytest.mark.parametrize(("machine", "cpus"), [("x86_64", "1.."), ("arm64", "arm:1..")])
def test_a_small_instance_without_a_gpu_is_not_lost_to_what_a_tool_takes_for_granted(machine, cpus):
    none = {"gpu_name": None, "gpu_count": 0, "gpu_memory_mib": None}
    cpu = Cpu(model="small", architecture=machine)
    candidate = on_instance(vcpus=1, physical_cores=1, memory_mib=2048, cpu=cpu, **none)
    resources = yaml.safe_load(export(candidate, "dstack"))["resources"]
    assert (resources["cpu"], resources["memory"]) == (cpus, "2GB..")
    assert ("as ImageId" in export(candidate, "ray")) == (machine == "arm64")


@pytest.mark.slow
def test_docker_compose_takes_the_file():
    compose = pytest.importorskip("compose_spec").PyCompose
    text = export_serving(generation_candidate(), generation_recommendation().request, "compose")
    assert compose.from_yaml(text).service_names() == ["replica-0", "replica-1"]
    with pytest.raises(ValueError, match="device_idz"):
        compose.from_yaml(text.replace("device_ids", "device_idz"))


KSERVE = json.loads((Path(__file__).parents[2] / "data/kserve_inferenceservice.json").read_text())


@settings(deadline=None)  # the first example reads Kubernetes' schemas
@given(
    width=st.sampled_from([1, 2, 4, 8]),
    replicas=st.integers(1, 8),
    count=st.integers(1, 8),
    name=st.sampled_from([("g6e.12xlarge", "g6e.12xlarge"), ("n1-highmem-4+t4x4", "n1-highmem-4")]),
)
def test_a_cluster_takes_the_files(width, replicas, count, name):
    """By Kubernetes' own schemas and KServe's: the same pod for each replica, and a Service that finds it."""
    placement = ServingPlacement(tensor_parallel=width, replicas=replicas)
    base = generation_candidate(name[0], placement=placement)
    candidate = replace(base, spec=replace(base.spec, count=count))
    request = generation_recommendation().request
    deployment, service = yaml.safe_load_all(export_serving(candidate, request, "kubernetes"))
    (served,) = yaml.safe_load_all(export_serving(candidate, request, "kserve"))
    predictor = served["spec"]["predictor"]
    own = KSERVE["properties"]["spec"]["properties"]["predictor"]["properties"]
    pod = {name: value for name, value in predictor.items() if name not in own}
    jsonschema.validate(served, KSERVE)
    pods = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "served"}, "spec": pod}
    for document in (deployment, service, pods):
        kubernetes_validate.validate(document, "1.33", strict=True)
    template = deployment["spec"]["template"]
    assert predictor["minReplicas"] == deployment["spec"]["replicas"] == replicas * count
    assert service["spec"]["selector"].items() <= template["metadata"]["labels"].items()
    (container,), (other,) = template["spec"]["containers"], pod["containers"]
    assert container == other | {"name": "vllm"}
    assert container["resources"]["limits"]["nvidia.com/gpu"] == width
    assert container["args"] == ["--model", *serve_words(candidate, request)]
    assert pod["nodeSelector"] == {"node.kubernetes.io/instance-type": name[1]}
    wrong = pods | {"spec": pod | {"containers": [other | {"startupProbes": {}}]}}
    with pytest.raises(kubernetes_validate.ValidationError, match="startupProbes"):
        kubernetes_validate.validate(wrong, "1.33", strict=True)
