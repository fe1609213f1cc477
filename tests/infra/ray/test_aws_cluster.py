"""`infra/ray/aws.yaml`: by Ray's own schema, and its nodes by Ray's own provider on moto's AWS."""

from __future__ import annotations

import time
from pathlib import Path
from types import SimpleNamespace

import boto3
import pytest
import yaml
from moto import mock_aws

from sweeps.executors.ray.placing import needs_of, slots
from tests.sweeps.executors.test_placing import on

FILE = Path(__file__).resolve().parents[3] / "infra" / "ray" / "aws.yaml"
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
    settings = {
        "HOME": str(tmp_path),
        "AWS_ACCESS_KEY_ID": "testing",
        "AWS_SECRET_ACCESS_KEY": "testing",
        "AWS_CONFIG_FILE": str(tmp_path / "none"),
        "AWS_SHARED_CREDENTIALS_FILE": str(tmp_path / "none"),
        "MOTO_IAM_LOAD_MANAGED_POLICIES": "true",
    }
    for name, value in settings.items():
        monkeypatch.setenv(name, value)
    # Ray gives IAM half a minute to spread what was made.
    monkeypatch.setattr(ray_config, "time", SimpleNamespace(sleep=lambda _: None, time=time.time))
    with mock_aws():
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
    for one in filled["available_node_types"].values():
        assert one["node_config"]["ImageId"].startswith("resolve:ssm:/aws/service/")
        one["node_config"]["ImageId"] = image
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
