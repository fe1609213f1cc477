"""From the start script to rows in the controller's store: every program real but those that end
or change a machine, AWS a server of moto, the metadata service one on loopback."""

from __future__ import annotations

import time
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path

import boto3
import pytest
from moto.server import ThreadedMotoServer

from advisor.operations.cloud_measurements import Collector
from advisor.operations.cloud_states import End, Phase, guest_states
from infra.aws.asking import Aws
from infra.aws.guest.job import Job, job_to_json
from infra.aws.guest.mailbox import Mailbox
from infra.aws.guest.software import packed_software
from infra.aws.guest.user_data import user_data
from sweeps.datasets.photographs import write_samples
from sweeps.store import open_store
from tests.infra.aws.guest.imds import serving
from tests.infra.aws.guest.sandbox import sandbox

BUCKET, REGION = "advisor-test", "us-east-1"
ROOT = Path(__file__).resolve().parents[4]
SWEEP = (
    "--networks", "alexnet,googlenet", "--tasks", "preprocessing", "--vcpus", "1",
    "--memory", "1GiB,2GiB", "--disks", "unlimited", "--accelerator", "cpu",
    "--executor", "process",
)  # fmt: skip


@pytest.fixture
def cloud(monkeypatch):
    """moto's server for this process and for the instance's."""
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    told = {
        "AWS_ENDPOINT_URL": f"http://{host}:{port}", "AWS_ACCESS_KEY_ID": "testing",
        "AWS_SECRET_ACCESS_KEY": "testing", "AWS_DEFAULT_REGION": REGION,
    }  # fmt: skip
    for name, value in told.items():
        monkeypatch.setenv(name, value)
    boto3.client("s3").create_bucket(Bucket=BUCKET)
    yield told
    server.stop()


@pytest.fixture
def service():
    with serving() as one:
        yield one


@pytest.fixture
def prepared(cloud, service, tmp_path):
    """An instance with its job and its software in the bucket, as a controller leaves them."""
    images = tmp_path / "images"
    images.mkdir()
    write_samples(images, range(16), seed=0)
    box = sandbox(
        tmp_path / "instance", **cloud, AWS_EC2_METADATA_SERVICE_ENDPOINT=service.address,
        OMP_NUM_THREADS="1",
    )  # fmt: skip
    software = packed_software(ROOT)
    job = Job(
        sweep_id="s1", region=REGION, bucket=BUCKET, prefix="sweeps/s1",
        arguments=(*SWEEP, "--data", str(images)),
    )  # fmt: skip
    mailbox = Mailbox(Aws(), REGION, BUCKET, "sweeps/s1")
    mailbox.put("job.json", job_to_json(job).encode())
    Mailbox(Aws(), REGION, BUCKET, "").put_once(software.key, software.content)
    now = datetime.now(UTC)
    script = user_data(
        job, software, expires_at=now + timedelta(hours=1), now=now,
        root=str(box.folder / "root"), per_boot=str(box.folder / "per-boot"),
    )  # fmt: skip
    return box, script, mailbox


def collected(mailbox, tmp_path):
    with closing(open_store(f"sqlite:///{tmp_path / 'controller.sqlite'}")) as store:
        Collector(mailbox).collect(store)
        return store.all()


@pytest.mark.slow
def test_a_sweep_from_the_start_script_to_the_controllers_store(prepared, tmp_path):
    box, script, mailbox = prepared
    said = box.run(script)
    assert box.calls[-1] == "shutdown -h now", said
    assert box.ends == 1
    (state,) = guest_states(mailbox)
    assert (state.phase, state.end) == (Phase.ENDED, End.DONE), said
    rows = collected(mailbox, tmp_path)
    assert len(rows) == 4
    assert all(row.step_seconds for row in rows)
    assert mailbox.get("guests/i-0123456789abcdef0.log")


@pytest.mark.slow
def test_a_spot_notice_in_the_middle_of_a_trial_counts_nothing_half(prepared, service, tmp_path):
    """As soon as one row has come, the market takes the instance back; a second one, which
    starts with an empty disk, measures the rest, and no trial twice."""
    box, script, mailbox = prepared
    started = box.start(script)
    while not list(mailbox.keys("measurements/")):
        assert started.poll() is None
        time.sleep(0.05)
    service.take_back()
    said = started.communicate(timeout=120)[0]
    assert box.calls[-1] == "shutdown -h now", said
    (state,) = guest_states(mailbox)
    assert state.end is End.SPOT, said
    first = {row.trial.trial_id: row for row in collected(mailbox, tmp_path)}
    assert 0 < len(first) < 4
    del service.told["meta-data/spot/instance-action"]
    service.told["meta-data/instance-id"] = "i-0fedcba9876543210"
    next_box = sandbox(tmp_path / "next", **{k: v for k, v in box.environment.items()
                                             if k != "PATH"})  # fmt: skip
    said = next_box.run(script.replace(str(box.folder), str(next_box.folder)))
    rows = {row.trial.trial_id: row for row in collected(mailbox, tmp_path)}
    assert len(rows) == 4, said
    assert all(rows[name] == row for name, row in first.items())
    assert len(list(mailbox.keys("measurements/"))) == 4
