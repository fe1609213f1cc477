"""Runs sweeps on rented instances, one on each: launch, job, results, and end."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import closing, contextmanager
from datetime import datetime, timedelta
from typing import NamedTuple

from msgspec import Struct

from advisor.errors import AdvisorError, CloudError
from advisor.infra.aws.asking import Aws, LeavingClock
from advisor.infra.aws.errors import Refused, explained, refuse_missing
from advisor.infra.aws.guest.job import Job, job_to_json
from advisor.infra.aws.guest.metadata import ResultBucket
from advisor.infra.aws.guest.software import EXTRAS, SERVING_EXTRAS, packed_software, user_data
from advisor.infra.aws.launch_options import LaunchedMachine, Slot, UserData
from advisor.infra.aws.orders import Fallbacks
from advisor.infra.aws.provisioned import Provisioned, provision
from advisor.infra.aws.reap import NotEndedError, Outcome, Why
from advisor.messages import format_counted
from advisor.runs.cloud.exchange import Collector, End, Phase, guest_states, logs_of_silent
from advisor.runs.cloud.plan import CloudPlan
from advisor.store.measurements import open_store

# Seconds to wait for S3, so that the budget is still checked once a minute.
_PATIENCE = 8.0
_WHY = {End.DONE: Why.DONE, End.FAILED: Why.FAILED, End.SPOT: Why.TAKEN_BACK, End.EXPIRY: Why.EXPIRED}
# Shows the user one line of progress.
Say = Callable[[str], None]


class CloudRun(Struct, frozen=True, kw_only=True):
    """How a run ended; `provisioned` is None if everything was measured before, `collected` is None if the
    rows went into a shared database."""

    sweep_id: str
    why: Why
    collected: int | None
    provisioned: Provisioned | None = None
    last_line: str = ""


class BucketWork:
    """The work of a launch as seen in the bucket: copies rows into the user's store, and reads states."""

    def __init__(
        self, aws: Aws, result_bucket: ResultBucket, say: Say, since: datetime | None = None
    ) -> None:
        self._aws = aws
        self._bucket = result_bucket
        self._collector = Collector(result_bucket, since)
        self._say = say
        self._phases: dict[str, Phase] = {}
        self.collected = 0
        self.last_line = ""

    def reported(self, machine: LaunchedMachine) -> Why | None:
        """See `advisor.infra.aws.reap.Work`; None while the bucket does not answer."""
        try:
            self.collect()
            states = guest_states(self._bucket)
        except AdvisorError as error:
            self._say(f"the bucket is not read now ({error})")
            return None
        state = next((guest for guest in states if guest.instance_id == machine.id), None)
        if state is None:
            return None
        if self._phases.get(machine.id) is not state.phase:
            self._phases[machine.id] = state.phase
            self._say(f"{machine.id}: {state.phase} {state.end} {state.said}".rstrip())
        self.last_line = state.said
        return _WHY.get(state.end)

    def on_minute(self, machine: LaunchedMachine, spent_usd: float, trouble: str) -> None:
        """See `advisor.infra.aws.reap.Work`."""
        if trouble:
            self._say(f"{machine.id}: EC2 is not asked now ({trouble}); ${spent_usd:.3f} at most")

    def on_end(self, outcome: Outcome) -> None:
        """See `advisor.infra.aws.reap.Work`: shows the logs of an instance that did not report its end."""
        machine = outcome.machine
        if outcome.why is Why.TAKEN_BACK or self._phases.get(machine.id) is Phase.ENDED:
            return
        try:
            logs = logs_of_silent(self._aws, machine, self._bucket)
        except AdvisorError as error:
            self._say(f"{machine.id} did not report its end, and its logs are not read ({error})")
            return
        for log in logs:
            self._say(f"{machine.id}: {log.last_line} (see {log.key} in the bucket)")
        self.last_line = next((log.last_line for log in logs if log.last_line), self.last_line)

    def collect(self) -> int:
        """Copy new rows from the bucket into the store; returns the total so far."""
        with closing(open_store()) as store:
            fresh = self._collector.collect(store)
        if fresh:
            self._say(f"{format_counted(fresh, 'measurement')} came back")
        self.collected += fresh
        return self.collected


def run_cloud(
    plan: CloudPlan, aws: Aws, say: Say, on_machine: Callable[[LaunchedMachine], None] = lambda _: None
) -> CloudRun:
    """Launch a plan, collect its measurements, and end everything within the budget. `on_machine` gets each
    instance. `CloudError` names what a launch lacks, or what may still run afterwards."""
    refuse_missing(plan.findings)
    job, hasty, options = job_of(plan), aws.less_patient(_PATIENCE), plan.options
    patient, impatient = (ResultBucket(api, job.region, job.bucket, job.prefix) for api in (aws, hasty))
    work = BucketWork(hasty, impatient, say, options.since)
    with _with_hint():  # an earlier instance may have finished the sweep
        is_done = any(state.end is End.DONE for state in guest_states(patient))
    if is_done:
        return CloudRun(sweep_id=plan.sweep.id, why=Why.DONE, collected=work.collect())

    def launched(machine: LaunchedMachine) -> None:
        say(_launch_text(machine))
        on_machine(machine)

    slot = Slot(
        sweep=plan.sweep,
        name=options.instance,
        regions=plan.preflight.regions,
        user_data=_user_data(aws, job, patient),
    )
    offers, queue = Fallbacks(plan.preflight.options), timedelta(minutes=options.queue_minutes)
    try:
        provisioned = provision(aws, slot, offers, work, queue=queue, on_machine=launched)
    finally:  # collect the last minute's results, even after an error
        try:
            work.collect()
        except AdvisorError as error:
            say(f"some measurements may still be in the bucket ({error}); the same command takes them")
    return CloudRun(
        sweep_id=plan.sweep.id,
        why=provisioned.outcome.why,
        provisioned=provisioned,
        last_line=work.last_line,
        collected=None if job.database_parameter else work.collected,
    )


def job_of(plan: CloudPlan) -> Job:
    """The job document for the instance."""
    options, sweep = plan.options, plan.sweep
    named = zip(sweep.devices, sweep.volumes, strict=True)
    return Job(
        sweep_id=sweep.id,
        region=plan.bucket_region,
        bucket=options.bucket,
        prefix=f"sweeps/{sweep.id}/{options.instance}",
        arguments=options.arguments,
        disks={device: volume.type for device, volume in named},
        database_parameter=options.database_parameter,
        command=options.command,
        local_disk=options.local_disk,
        engine=options.engine,
    )


def nothing_measured(plan: CloudPlan, run: CloudRun) -> CloudError:
    """The error for an instance that ran but returned no measurement."""
    return CloudError(
        f"nothing was measured on {plan.options.instance} ({run.why}): {run.last_line or 'it told nothing'}",
        hint=f"`advisor cloud log {plan.sweep.id}` shows what its instance left",
    )


class InstanceRun(NamedTuple):
    """The result of one launch: its run, or its error and whether an instance had existed by then."""

    plan: CloudPlan
    run: CloudRun | None = None
    error: AdvisorError | None = None
    had_instance: bool = False

    @property
    def spent_usd(self) -> float:
        """The cost; of a launch that failed after it had an instance its whole share of the budget."""
        if self.run is None:
            return self.plan.most_usd if self.had_instance else 0.0
        return self.run.provisioned.spent_usd if self.run.provisioned else 0.0


def run_fleet(plans: Sequence[CloudPlan], aws: Aws, say: Say) -> list[InstanceRun]:
    """Run all plans in parallel, each as `run_cloud` does; a failed one does not end the others. Ctrl-C ends
    all, and is raised again then. `CloudError` names what is missing before anything is launched."""
    for plan in plans:
        refuse_missing(plan.findings)
    stop = threading.Event()
    with ThreadPoolExecutor(max_workers=len(plans)) as pool:
        futures: list[Future[InstanceRun]] = []
        try:
            futures += (pool.submit(_instance_run, plan, aws, stop, say) for plan in plans)
            wait(futures)
        except BaseException:
            stop.set()
            wait(futures)
            for future in futures:  # an instance that may still run must be reported instead
                if not future.exception() and isinstance(error := future.result().error, NotEndedError):
                    raise error  # noqa: B904 - what interrupted it stays its context
            raise
    return [future.result() for future in futures]


def _instance_run(plan: CloudPlan, aws: Aws, stop: threading.Event, say: Say) -> InstanceRun:
    own = aws.by(LeavingClock(aws.clock, stop))
    name, had = plan.options.instance, list[LaunchedMachine]()
    try:
        return InstanceRun(plan, run_cloud(plan, own, lambda line: say(f"{name}: {line}"), had.append))
    except AdvisorError as error:
        say(f"{name}: {error}")
        return InstanceRun(plan, error=error, had_instance=bool(had))


@contextmanager
def _with_hint() -> Iterator[None]:
    """Turn a refusal in the block into a `CloudError` that names the missing right."""
    try:
        yield
    except Refused as refused:
        raise CloudError(f"nothing was launched: {explained(refused)}") from refused


def _launch_text(machine: LaunchedMachine) -> str:
    until = f"{machine.expires_at:%H:%M} UTC" if machine.expires_at else "an unknown time"
    return (
        f"{machine.id}: {machine.instance_type} {machine.market} in {machine.zone}, at most "
        f"${machine.usd_per_hour:.3f}/h, ends itself at {until}"
    )


def _user_data(aws: Aws, job: Job, result_bucket: ResultBucket) -> UserData:
    """Put job and software into the bucket; returns the function that makes an instance's start script."""
    software = packed_software(extras=SERVING_EXTRAS if job.engine else EXTRAS)
    with _with_hint():
        ResultBucket(aws, job.region, job.bucket, "").put_once(software.key, software.content)
        result_bucket.put(job.key.removeprefix(f"{job.prefix}/"), job_to_json(job).encode())

    return lambda expires_at, _option: user_data(job, software, expires_at=expires_at, now=aws.clock.now())
