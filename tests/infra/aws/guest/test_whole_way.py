"""From the start script to rows in the controller's store: every program real but those that end
or change a machine, AWS a server of moto, the metadata service one on loopback."""

import os
import shlex
import signal
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import boto3
import pytest

from advisor.infra.aws.asking import Aws
from advisor.infra.aws.guest.job import job_to_json
from advisor.infra.aws.guest.metadata import ResultBucket
from advisor.infra.aws.guest.software import packed_software
from advisor.runs.cloud.exchange import Collector, End, Phase, guest_states
from advisor.store.measurements import open_store
from tests.infra.aws.builders import a_job
from tests.infra.aws.guest.sandbox import Sandbox, Service, sandbox, serving
from tests.infra.aws.reaping import moto_server

pytestmark = pytest.mark.slow
BUCKET, REGION = "advisor-test", "us-east-1"
ROOT = Path(__file__).resolve().parents[4]
STEPS = 200
# Three trials, each of some seconds.
SWEEP = shlex.split(
    "--networks alexnet --tasks preprocessing --vcpus 1 --memory 1GiB,2GiB,3GiB --disks unlimited "
    f"--accelerator cpu --executor process --batch-sizes 8 --iterations {STEPS}"
)
NOTICE = "meta-data/spot/instance-action"


@dataclass
class Account:
    """A bucket, the images, and the instances of one sweep, one after the other."""

    folder: Path
    cloud: dict[str, str]
    service: Service
    data: str
    instances: int = 0

    @property
    def result_bucket(self) -> ResultBucket:
        return ResultBucket(Aws(), REGION, BUCKET, "sweeps/s1")

    def prepared(self, lasts=timedelta(hours=1)) -> tuple[Sandbox, str]:
        """A new instance with its job and its software in the bucket, as a controller leaves
        them; and its start script."""
        self.instances += 1
        self.service.told["meta-data/instance-id"] = f"i-{self.instances:017x}"
        self.service.told.pop(NOTICE, None)
        box = sandbox(
            self.folder / f"instance{self.instances}",
            **self.cloud,
            OMP_NUM_THREADS="1",
            AWS_EC2_METADATA_SERVICE_ENDPOINT=self.service.address,
        )
        arguments = (*SWEEP, "--data", self.data)
        job = a_job(arguments=arguments)
        software = packed_software(ROOT)
        ResultBucket(Aws(), REGION, BUCKET, "").put_once(software.key, software.content)
        self.result_bucket.put("job.json", job_to_json(job).encode())
        return box, box.user_data(job, software, lasts)

    @contextmanager
    def measuring(self, rows=0, **changes) -> Iterator[Sandbox]:
        """A new instance in the middle of a trial, after it has sent so many rows; after the
        block it is waited for."""
        box, script = self.prepared(**changes)
        wanted = len(self.rows()) + rows
        with box.started(script) as process:
            while len(self.rows()) < wanted or not box.processes("advisor.sweeps.worker"):
                assert process.poll() is None, box.said
                time.sleep(0.2)
            yield box
            process.wait(timeout=400)

    def rows(self):
        """What a controller collects, by trial."""
        path = self.folder / "controller.sqlite"
        with closing(open_store(f"sqlite:///{path}")) as store:
            Collector(self.result_bucket).collect(store)
            return {entry.trial.trial_id: entry for entry in store.all()}

    @property
    def ends(self) -> list[End]:
        states = {guest_state.instance_id: guest_state for guest_state in guest_states(self.result_bucket)}
        return [states[name].end for name in sorted(states)]


@pytest.fixture
def account(monkeypatch, images, tmp_path) -> Iterator[Account]:
    with moto_server(monkeypatch) as settings, serving() as service:
        boto3.client("s3").create_bucket(Bucket=BUCKET)
        yield Account(tmp_path, settings, service, str(images))


@pytest.mark.night
def test_each_trial_counts_once_whatever_becomes_of_the_instances(account):
    """The first is taken back and the second one's program is killed, both in the middle of a
    trial; the third measures what is left."""
    with account.measuring(rows=1) as box:
        account.service.take_back()
    assert account.ends == [End.SPOT], box.said
    assert box.calls[-1] == "shutdown -h now"
    first = account.rows()
    assert 0 < len(first) < 3
    with account.measuring() as box:
        os.kill(*box.processes("cloud", "guest"), signal.SIGKILL)
    assert account.ends == [End.SPOT, End.NOT_YET]  # nobody was left to tell
    assert box.calls[-1] == "shutdown -h now"
    box, script = account.prepared()
    said = box.run(script)
    assert box.calls[-1] == "shutdown -h now"
    assert box.ends == 1
    assert account.ends == [End.SPOT, End.NOT_YET, End.DONE], said
    rows = account.rows()
    assert [steps(row) for row in rows.values()] == [STEPS] * 3
    assert all(rows[name] == row for name, row in first.items())
    assert len(list(account.result_bucket.keys("measurements/"))) == 3
    assert b"3 trials: " in account.result_bucket.get("guests/i-00000000000000003.log")


def test_a_killed_sweep_is_told_and_is_the_machines_end(account):
    with account.measuring() as box:
        os.kill(*box.processes("sweep", "run"), signal.SIGKILL)
    (state,) = guest_states(account.result_bucket)
    assert (state.phase, state.end, state.exit_code) == (Phase.ENDED, End.FAILED, -9)
    assert box.calls[-1] == "shutdown -h now"
    assert not account.rows()


def test_data_in_s3_come_to_the_instance_before_its_trials(account):
    s3 = boto3.client("s3")
    s3.create_bucket(Bucket="photos")
    for path in Path(account.data).rglob("*.jpg"):
        s3.upload_file(path, "photos", f"train/{path.name}")
    account.data = "s3://photos/train"
    box, script = account.prepared()
    said = box.run(script)
    assert account.ends == [End.DONE], said
    cached = [row.environment["data_cache"] for row in account.rows().values()]
    assert [(entry["address"], entry["files"]) for entry in cached] == [(account.data, 24)] * 3
    assert {entry["fetched_bytes"] for entry in cached} == {0}  # all came before the first trial
    assert list(box.folder.rglob("fetched/*/train/*.jpg"))


def steps(row):
    """All of a trial, warm-up included."""
    return len(row.step_seconds) + len(row.warmup_step_seconds)
