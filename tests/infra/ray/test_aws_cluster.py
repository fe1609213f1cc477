"""`infra/ray/aws.yaml`: by Ray's own schema, and its nodes by Ray's own provider on moto's AWS."""

import os
import shutil
import time
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import boto3
import pytest
import yaml
from moto import settings
from moto.core.responses import ActionAuthenticatorMixin

from advisor.infra.aws.errors import policy
from advisor.sweeps.run.ray.cluster import needs_of, slots
from tests.infra.aws.guest.sandbox import sandbox
from tests.infra.aws.iam import (
    ACCOUNT,
    Ask,
    actions,
    allowed_actions,
    allowed_actions_of,
    allows,
    recorded_calls,
)
from tests.infra.aws.reaping import moto_account, role_credentials
from tests.sweeps.run.test_placing import on

FILE = Path(__file__).resolve().parents[3] / "infra" / "ray" / "aws.yaml"
PLAIN = yaml.safe_load(FILE.read_text())
pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
]


@pytest.fixture
def aws(monkeypatch, tmp_path):
    """moto in place of AWS, and a home folder for the key that Ray makes."""
    ray_config = pytest.importorskip("ray.autoscaler._private.aws.config")
    nowhere = dict.fromkeys(("AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE"), str(tmp_path / "none"))
    for name, value in {"HOME": str(tmp_path), "MOTO_IAM_LOAD_MANAGED_POLICIES": "true", **nowhere}.items():
        monkeypatch.setenv(name, value)
    # Ray gives IAM half a minute to spread what was made.
    monkeypatch.setattr(ray_config, "time", SimpleNamespace(sleep=lambda _: None, time=time.time))
    with moto_account(monkeypatch):
        boto3.client("iam").create_instance_profile(InstanceProfileName="advisor-cluster")
        yield ray_config


@pytest.fixture
def config(aws):
    """The file as `ray up` would use it; moto resolves no image by a parameter of SSM."""
    from ray.autoscaler._private.aws.node_provider import AWSNodeProvider
    from ray.autoscaler._private.util import prepare_config, validate_config

    prepared = prepare_config(yaml.safe_load(FILE.read_text()))
    validate_config(prepared)
    filled = AWSNodeProvider.fillout_available_node_types_resources(aws.bootstrap_aws(prepared))
    ec2 = boto3.client("ec2", region_name="us-east-1")
    image = ec2.describe_images(Owners=["amazon"])["Images"][0]["ImageId"]
    for kind in filled["available_node_types"].values():
        assert kind["node_config"]["ImageId"].startswith("resolve:ssm:/aws/service/")
        kind["node_config"]["ImageId"] = image
    return filled


def test_each_kind_of_node_is_created_with_its_disk_and_as_spot(config):
    from ray.autoscaler._private.aws.node_provider import AWSNodeProvider

    provider = AWSNodeProvider(config["provider"], config["cluster_name"])
    kinds = config["available_node_types"]
    for name, kind in kinds.items():
        tags = {"ray-node-kind": "head" if name == "head" else "worker", "ray-user-node-type": name}
        provider.create_node(kind["node_config"], tags, 1)
    assert len(provider.non_terminated_nodes({})) == len(kinds)
    ec2 = boto3.resource("ec2", region_name="us-east-1")
    for machine in ec2.instances.all():
        disks = {volume.size: volume.volume_type for volume in machine.volumes.all()}
        assert disks[100] == "gp3"
        assert (machine.instance_type == "m6i.large") == (machine.instance_lifecycle != "spot")
    assert len({machine.instance_type for machine in ec2.instances.all()}) == len(kinds)


def test_its_nodes_take_the_trials_that_the_file_promises(config):
    """By the resources that Ray finds for the instance types, and those in the file."""
    kinds = config["available_node_types"].items()
    workers = {name: kind["resources"] for name, kind in kinds if name != "head"}
    for gpu in ("T4", "L4", "A10G", "L40S"):
        for memory_gib, vcpus in ((8, 2.0), (15, 4.0)):
            needs = needs_of(on(f"cuda:{gpu}", vcpus, mounted="gp3", memory_gib=memory_gib))
            (name,) = [name for name, node in workers.items() if slots(needs, [node])]
            assert name == gpu.lower()
        assert not slots(needs_of(on(f"cuda:{gpu}", memory_gib=32)), workers.values())


HEAD = "i-0123456789abcdef0"
OURS = {"aws:ResourceTag/ray-cluster-name": "advisor"}


@contextmanager
def as_head(monkeypatch, document):
    """What asks AWS meanwhile is the cluster's head: by the credentials of a role with that policy,
    and moto looks at them. moto knows neither resources of EC2 nor conditions (`allows` does)."""
    from ray.autoscaler._private.aws import utils

    kept = [{name: entry[name] for name in ("Effect", "Action")} for entry in document["Statement"]]
    statements = [{**entry, "Resource": "*"} for entry in kept]
    given = role_credentials("head", HEAD, {"Version": document["Version"], "Statement": statements})
    for name, key in (("ACCESS_KEY_ID", "AccessKeyId"), ("SECRET_ACCESS_KEY", "SecretAccessKey")):
        monkeypatch.setenv(f"AWS_{name}", given[key])
    monkeypatch.setenv("AWS_SESSION_TOKEN", given["SessionToken"])
    monkeypatch.setattr(boto3, "DEFAULT_SESSION", None)
    monkeypatch.setattr(ActionAuthenticatorMixin, "request_count", 0)
    monkeypatch.setattr(settings, "INITIAL_NO_AUTH_ACTION_COUNT", 0)
    utils.resource_cache.cache_clear()
    try:
        with recorded_calls(monkeypatch) as calls:
            yield calls
    finally:
        utils.resource_cache.cache_clear()


def life_of_workers(config):
    """What the autoscaler on the head does: workers are launched, tagged, found and ended. EC2
    resolves their images in the caller's name."""
    from ray.autoscaler._private.aws.node_provider import AWSNodeProvider

    images = {kind["node_config"]["ImageId"] for kind in PLAIN["available_node_types"].values()}
    names = [image.removeprefix("resolve:ssm:") for image in images]
    boto3.client("ssm", region_name="us-east-1").get_parameters(Names=names)
    provider = AWSNodeProvider(config["provider"], config["cluster_name"])
    for name, kind in config["available_node_types"].items():
        if name != "head":
            tags = {"ray-node-kind": "worker", "ray-user-node-type": name}
            provider.create_node(kind["node_config"], tags, 1)
    nodes = provider.non_terminated_nodes({"ray-node-kind": "worker"})
    for node in nodes:
        provider.set_node_tags(node, {"ray-node-status": "up-to-date"})
    provider.terminate_nodes(nodes)
    return nodes


def test_the_head_launches_and_ends_its_workers_by_its_own_role(config, monkeypatch):
    """Not by the rights of whoever started the cluster."""
    document = policy("cluster", account=ACCOUNT)
    with as_head(monkeypatch, document) as calls:
        nodes = life_of_workers(config)
        assert len(nodes) == len(config["available_node_types"]) - 1
    assert actions(calls) == allowed_actions(document) - {"iam:CreateServiceLinkedRole"}
    for action, request in calls:
        for ask in cluster_asks(action, request):
            assert allows(document, ask), ask


def cluster_asks(action, request):
    """What Ray's requests need, by resource; its volumes and interfaces carry no tag."""
    ours = f"arn:aws:ec2:us-east-1:{ACCOUNT}"
    if action == "ssm:GetParameters":
        for name in request["Names"]:
            yield Ask(action, f"arn:aws:ssm:us-east-1::parameter{name}")
    elif action in ("ec2:CreateTags", "ec2:TerminateInstances"):
        yield Ask(action, f"{ours}:instance/x", OURS)
    elif action == "ec2:RunInstances":
        tags = {tag["Key"]: tag["Value"] for tag in request["TagSpecifications"][0]["Tags"]}
        worn = {f"aws:RequestTag/{key}": value for key, value in tags.items()}
        yield Ask(action, f"{ours}:instance/*", worn)
        yield Ask("ec2:CreateTags", f"{ours}:instance/*", {"ec2:CreateAction": "RunInstances"})
        yield Ask(action, "arn:aws:ec2:us-east-1::image/ami-1")
        for kind in ("key-pair", "network-interface", "security-group", "subnet", "volume"):
            yield Ask(action, f"{ours}:{kind}/x")
    else:
        yield Ask(action)


@pytest.mark.parametrize("missing", ["ssm:GetParameters", "ec2:RunInstances", "ec2:CreateTags"])
def test_moto_refuses_what_the_role_may_not(config, monkeypatch, missing):
    """Ray's own role lacks the first, so that no worker of this file could ever start."""
    document = policy("cluster", account=ACCOUNT)
    statements = document["Statement"]
    document["Statement"] = [entry for entry in statements if missing not in allowed_actions_of(entry)]
    with as_head(monkeypatch, document), pytest.raises(Exception, match=r"Denied|Unauthorized"):
        life_of_workers(config)


def test_what_is_no_node_of_the_cluster_cannot_be_ended_or_tagged():
    document = policy("cluster", account=ACCOUNT)
    other = f"arn:aws:ec2:us-east-1:{ACCOUNT}:instance/i-1"
    for action in ("ec2:TerminateInstances", "ec2:CreateTags", "ec2:RunInstances"):
        for worn in ({}, {"aws:ResourceTag/ray-cluster-name": "another"}):
            assert not allows(document, Ask(action, other, worn))


def test_the_heads_profile_is_the_one_of_the_stack():
    from advisor.infra.cloudformation import template

    head = PLAIN["available_node_types"]["head"]["node_config"]
    name = template("account")["Parameters"]["ClusterName"]["Default"]
    assert head["IamInstanceProfile"] == {"Name": name}
    assert PLAIN["cluster_name"] == "advisor"  # the policy holds it to that


def test_a_node_stops_updates_and_sets_its_clocks_before_it_installs_anything(tmp_path):
    """The file's first commands, run by bash; a node without a GPU goes on as well."""
    quiet, install = PLAIN["setup_commands"][:2]
    assert "apt-get" in install
    for with_gpu in (True, False):
        box = sandbox(tmp_path / str(with_gpu))
        (box.programs / "tr").symlink_to(os.path.realpath(shutil.which("tr")))
        (box.programs / "sudo").write_text('#!/bin/sh\nexec "$@"\n')
        (box.programs / "sudo").chmod(0o755)
        if with_gpu:
            box.add_gpu()
        box.run(f"set -e\n{quiet}\n{install}\n")
        assert box.calls[0].startswith("systemctl disable --now apt-daily.timer")
        assert ("nvidia-smi -ac 5001,1590" in box.calls) is with_gpu
        assert box.calls[-1].startswith("apt-get")
