"""The work of an instance in this process: a sweep as a real child, moto's S3, a local IMDS."""

import sys
import time
from contextlib import closing
from datetime import UTC, datetime, timedelta
from threading import Thread

import boto3
import pytest

from advisor.errors import AdvisorError, DataError
from advisor.infra.aws.asking import Aws, Clock
from advisor.infra.aws.guest.job import Job, job_to_json
from advisor.infra.aws.guest.metadata import Metadata, ResultBucket
from advisor.runs.cloud.agent import Guest, command_of, own_data, run_job
from advisor.runs.cloud.exchange import Collector, End, Phase, guest_states, object_of
from advisor.store.measurements import open_store
from tests.infra.aws.guest.sandbox import serving
from tests.infra.aws.reaping import aws, moto_account
from tests.sweeps.builders import measurement, resources, trial

BUCKET, REGION = "advisor-test", "us-east-1"


def a_job(**changes):
    usual = {"sweep_id": "s1", "region": REGION, "bucket": BUCKET, "prefix": "sweeps/s1", "arguments": ("3",)}
    return Job(**(usual | changes))


JOB = a_job()
LATER = timedelta(hours=1)
# Stands for `advisor sweep run N`: stores one trial after the other that the store has not yet,
# each after a while; SIGTERM gives up the one in hand.
SWEEP = """
import sys, time
from contextlib import closing
from advisor.store.measurements import open_store
from tests.sweeps.builders import measurement, resources, trial
print(sys.argv, flush=True)
with closing(open_store()) as store:
    for number in range(int(sys.argv[3])):
        one = trial(resources=resources(memory_mib=1024.0 + number))
        if one.trial_id not in store.summaries():
            time.sleep(PACE)
            store.append_all([measurement(trial=one, environment={"measured_by": FOLDER})])
sys.exit(CODE)
"""


def trials(count):
    return [trial(resources=resources(memory_mib=1024.0 + number)) for number in range(count)]


@pytest.fixture
def service():
    with serving() as item:
        yield item


@pytest.fixture
def bucket(monkeypatch):
    with moto_account(monkeypatch):
        boto3.client("s3", region_name=REGION).create_bucket(Bucket=BUCKET)
        yield result_bucket()


def real_time(faults=None):
    return aws(faults and {REGION: faults}, Clock())


def result_bucket(faults=None):
    return ResultBucket(real_time(faults), REGION, BUCKET, "sweeps/s1")


def guest(folder, service, *, pace=0.05, code=0, **changes):
    folder.mkdir(exist_ok=True)
    program = SWEEP.replace("PACE", str(pace)).replace("CODE", str(code))
    program = (sys.executable, "-c", program.replace("FOLDER", repr(folder.name)))
    values = {"aws": real_time(), "metadata": Metadata(service.address), "mount": lambda job: {}}
    return Guest(**{"folder": folder, "poll_seconds": 0.05, "advisor": program, **values, **changes})


def run(a_guest, job=JOB, lasts=LATER):
    """Put the job into the bucket, and do it."""
    result_bucket().put("job.json", job_to_json(job).encode())
    return run_job(job.url, REGION, datetime.now(UTC) + lasts, a_guest)


@pytest.fixture
def store(tmp_path):
    with closing(open_store(f"sqlite:///{tmp_path / 'x.sqlite'}")) as store:
        yield store


def collected(tmp_path):
    """What the controller has in its store after collecting, by trial id."""
    with closing(open_store(f"sqlite:///{tmp_path / 'controller.sqlite'}")) as store:
        Collector(result_bucket()).collect(store)
        return {row.trial.trial_id: row for row in store.all()}


def test_rows_arrive_while_the_sweep_still_runs(bucket, service, tmp_path):
    seen = []

    class Watching(Aws):
        """Notes what is written, and when the child still runs."""

        def ask(self, region, operation, /, **request):
            if operation == "put_object" and "measurements/" in request["Key"]:
                seen.append(guest_states(bucket)[0].phase)
            return real_time().ask(region, operation, **request)

    watched = guest(tmp_path / "one", service, pace=0.5, aws=Watching(lambda *_: None))
    assert run(watched) is End.DONE
    assert seen.count(Phase.SWEEPING) == 3
    assert set(collected(tmp_path)) == {item.trial_id for item in trials(3)}
    (state,) = guest_states(bucket)
    told = (state.phase, state.end, state.exit_code, state.instance_id)
    assert told == (Phase.ENDED, End.DONE, 0, "i-0123456789abcdef0")


def wait_for_rows(database):
    """Until the sweep has stored something, however busy the machine is."""
    for _ in range(2400):
        if has_rows(database):
            return
        time.sleep(0.05)


def has_rows(database):
    with closing(open_store(database, reading=True)) as store:
        return bool(store.summaries())


def test_a_notice_gives_up_the_trial_in_hand_and_another_instance_goes_on(bucket, service, tmp_path):
    job = a_job(arguments=("400",))
    database = f"sqlite:///{tmp_path / 'one' / 'measurements.sqlite'}"
    Thread(target=lambda: (wait_for_rows(database), service.take_back())).start()
    assert run(guest(tmp_path / "one", service, pace=0.1), job) is End.SPOT
    first = collected(tmp_path)
    assert 0 < len(first) < 400
    del service.told["meta-data/spot/instance-action"]
    few = a_job(arguments=(str(len(first) + 2),))
    assert run(guest(tmp_path / "two", service), few) is End.DONE
    rows = collected(tmp_path)
    assert len(rows) == len(first) + 2
    by = [row.environment["measured_by"] for row in rows.values()]
    assert (by.count("one"), by.count("two")) == (len(first), 2)


def test_before_the_expiry_what_was_measured_is_sent(bucket, service, tmp_path):
    """Its time is nearly over once something was measured, however busy the machine is."""
    database = f"sqlite:///{tmp_path / 'one' / 'measurements.sqlite'}"

    class FastOnceMeasured(Clock):
        def now(self):
            return super().now() + (LATER if has_rows(database) else timedelta())

    fast = guest(tmp_path / "one", service, aws=aws(None, FastOnceMeasured()))
    assert run(fast, a_job(arguments=("4000",))) is End.EXPIRY
    assert collected(tmp_path)


def test_a_sweep_that_fails_is_told_with_its_last_words(bucket, service, tmp_path):
    assert run(guest(tmp_path / "one", service, code=3)) is End.FAILED
    (state,) = guest_states(bucket)
    assert (state.end, state.exit_code) == (End.FAILED, 3)
    assert "sweep" in state.said
    assert len(collected(tmp_path)) == 3


def test_no_job_and_disks_that_cannot_be_mounted_are_told(bucket, service, tmp_path):
    with pytest.raises(DataError, match="no job at s3://advisor-test/sweeps/s1"):
        run_job(JOB.url, REGION, datetime.now(UTC) + LATER, guest(tmp_path / "one", service))

    def mount(job):
        raise DataError("no volume is attached as /dev/sdf")

    with pytest.raises(DataError, match="/dev/sdf"):
        run(guest(tmp_path / "one", service, mount=mount))
    (state,) = guest_states(bucket)
    assert (state.phase, state.end) == (Phase.ENDED, End.FAILED)
    assert "/dev/sdf" in state.said


def test_a_sweep_reads_from_every_disk_and_a_verification_from_the_one_that_is_meant(tmp_path):
    mounts, verifying = {"gp3": tmp_path / "gp3"}, a_job(command="verify", arguments=("--minutes", "2"))
    swept = ("advisor", "sweep", "run", "3", f"--disk-path=gp3={tmp_path}/gp3")
    assert command_of(("advisor",), JOB, mounts) == swept
    assert own_data(JOB, mounts) == {}
    assert command_of(("advisor",), verifying, mounts) == ("advisor", "verify", "--minutes", "2")
    assert own_data(verifying, mounts) == {"XDG_CACHE_HOME": str(tmp_path / "gp3")}


def test_a_target_that_a_verification_misses_is_an_answer(bucket, service, tmp_path):
    # `advisor verify 1 1` has its number of trials where `advisor sweep run 1` has it.
    job = a_job(command="verify", arguments=("1", "1"))
    assert run(guest(tmp_path / "one", service, code=3), job) is End.DONE
    assert len(collected(tmp_path)) == 1


def test_a_shared_database_is_written_by_the_sweep_itself(bucket, service, tmp_path):
    url = f"sqlite:///{tmp_path / 'shared.sqlite'}"
    named = {"Name": "/advisor/database", "Value": url, "Type": "SecureString"}
    boto3.client("ssm", region_name=REGION).put_parameter(**named)
    job = a_job(database_parameter="/advisor/database")
    assert run(guest(tmp_path / "one", service), job) is End.DONE
    with closing(open_store(url, reading=True)) as store:
        assert len(store.all()) == 3
    assert not list(bucket.keys("measurements/"))
    assert url not in (tmp_path / "one/sweep.log").read_text()


def test_a_bucket_in_trouble_gets_all_rows_in_the_end(bucket, service, tmp_path):
    trouble = real_time({"put_object": ["AccessDenied", "SlowDown", "InternalError"] * 2})
    assert run(guest(tmp_path / "one", service, aws=trouble)) is End.DONE
    assert len(collected(tmp_path)) == 3


@pytest.mark.slow
def test_a_bucket_that_takes_nothing_is_an_error_and_not_silence(bucket, service, tmp_path):
    refusing = real_time({"put_object": "AccessDenied"})
    with pytest.raises(AdvisorError, match="took not all"):
        run(guest(tmp_path / "one", service, aws=refusing))


def test_sending_and_collecting_twice_changes_nothing(bucket, store):
    rows = [measurement(trial=row) for row in trials(5)]
    assert [bucket.put_once(*object_of(row)) for row in rows] == [True] * 5
    assert [bucket.put_once(*object_of(row)) for row in rows] == [False] * 5
    collector = Collector(bucket)
    assert [each.collect(store) for each in (collector, collector, Collector(bucket))] == [5, 0, 0]
    assert {row.trial.trial_id: row for row in store.all()} == {row.trial.trial_id: row for row in rows}


def test_a_row_with_another_run_is_another_object_and_the_store_keeps_it(bucket, store):
    row = measurement()
    run_of = {"status": "ok", "step_seconds": [0.1, 0.2], "started_at": "2026-07-20T11:00:00"}
    more = measurement(repeats=(run_of,))
    assert [bucket.put_once(*object_of(each)) for each in (row, more)] == [True, True]
    Collector(bucket).collect(store)
    assert [len(item.repeats) for item in store.all()] == [1]


def test_an_object_that_is_no_measurement_is_named_and_keeps_no_other_one_back(bucket, store):
    key, _ = object_of(measurement())
    bucket.put(key, b"{}")
    bucket.put_once(*object_of(measurement(trial=trials(1)[0])))
    collector = Collector(bucket)
    assert collector.collect(store) == 1
    assert list(collector.refused) == [key]
    assert collector.collect(store) == 0
