"""Which cells a campaign has, in which order, and when a ladder of batch sizes ends. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from msgspec import Struct

from advisor.domain import (
    MEASURABLE_PRECISIONS,
    Accelerator,
    DatasetProfile,
    DiskRate,
    Measurement,
    MemoryFormat,
    Precision,
    Resources,
    Stack,
    Status,
    Task,
    Trial,
    Workload,
)
from advisor.models.zoo.networks import Kind, NetworkInfo
from advisor.sweeps.planning.repeating import wanted_runs
from advisor.sweeps.worker.policy import CPU_CLOCK, PREFETCH_FACTOR, SYNTHETIC, loader_workers

_COMPUTED = (Task.INFERENCE, Task.TRAINING)
_VCPUS = (1, 2, 4, 8, 16)
# A larger batch than one that takes so long adds nothing.
LONGEST_STEP_SECONDS = 4.0
_FAULTS = (Status.FAILED, Status.TIMED_OUT)
_BYTES_PER_VALUE = 4


class Machine(Struct, frozen=True, kw_only=True):
    """What every cell has in common. `gpu` is the device's name, None for a CPU campaign; it is
    part of each trial, so that rows of different machines stay apart.

    `by_cpu_time`: steps are timed in the process's CPU seconds, which neighbours cannot take.
    Only one thread's CPU seconds are the seconds of a step.
    """

    accelerator: Accelerator
    resources: Resources
    gpu: str | None
    by_cpu_time: bool = False


class Setting(Struct, frozen=True, kw_only=True):
    """How a network is run."""

    precision: Precision
    memory_format: MemoryFormat = MemoryFormat.CONTIGUOUS
    stack: Stack = Stack.EAGER

    @property
    def is_usual(self) -> bool:
        """Whether it is PyTorch as it comes, but for the precision."""
        return self.memory_format is MemoryFormat.CONTIGUOUS and self.stack is Stack.EAGER


class Loaders(Struct, frozen=True, kw_only=True):
    """Loader processes a vCPU, and batches that each prepares ahead."""

    share: float = 1.0
    prefetch_factor: int = PREFETCH_FACTOR


class BenchmarkBudget(Struct, frozen=True, kw_only=True):
    """Time boxes and the grid's size. Settings other than the usual one take `other_batches`.

    The usual setting in fp32 at `anchor_batch` is measured for `anchor_seconds`, on a GPU after as
    many that do not count (what it sustains), in `anchor_runs` processes, which differ by more
    than each is known to. Without `pipeline_tasks` there is no real input.
    """

    seconds: float
    min_steps: int
    max_seconds: float
    batches: tuple[int, ...]
    settings: tuple[Setting, ...]
    other_batches: tuple[int, ...] = ()
    anchor_batch: int | None = None
    anchor_seconds: float = 60.0
    anchor_runs: int = 3
    pipeline_tasks: tuple[Task, ...] = ()
    pipeline_batch: int = 64
    pipeline_seconds: float = 10.0
    loaders: tuple[Loaders, ...] = (Loaders(),)


_USUAL = tuple(Setting(precision=precision) for precision in MEASURABLE_PRECISIONS)
_LAST = tuple(
    Setting(precision=precision, memory_format=MemoryFormat.CHANNELS_LAST)
    for precision in (Precision.AMP, Precision.BF16)
)
_COMPILED = tuple(Setting(precision=precision, stack=Stack.COMPILE) for precision in MEASURABLE_PRECISIONS)
FULL = BenchmarkBudget(
    seconds=10.0,
    min_steps=8,
    max_seconds=20.0,
    batches=(1, 8, 32, 128, 512),
    settings=_USUAL + _LAST + _COMPILED,
    other_batches=(32, 128),
    anchor_batch=32,
    pipeline_tasks=_COMPUTED,
    loaders=(Loaders(), Loaders(share=0.5, prefetch_factor=4)),
)
QUICK = BenchmarkBudget(
    seconds=0.2,
    min_steps=3,
    max_seconds=1.0,
    batches=(1, 2),
    settings=(Setting(precision=Precision.FP32), Setting(precision=Precision.BF16)),
    pipeline_tasks=(Task.INFERENCE,),
    pipeline_batch=8,
    pipeline_seconds=1.0,
)
# What shows how fast a CPU computes: a few batch sizes in fp32, nothing read from a disk.
BRIEF = BenchmarkBudget(
    seconds=0.6,
    min_steps=3,
    max_seconds=5.0,
    batches=(1, 8, 32),
    settings=(Setting(precision=Precision.FP32),),
)


class Ladder(Struct, frozen=True, kw_only=True):
    """One network, task and setting, measured at rising batch sizes."""

    info: NetworkInfo
    task: Task
    setting: Setting
    batches: tuple[int, ...]
    fingerprint: str = ""


def in_order(infos: Iterable[NetworkInfo]) -> list[NetworkInfo]:
    """Image classifiers first, others in the order in which they are listed."""
    return sorted(infos, key=lambda info: info.kind is not Kind.IMAGE)


def ladders(
    infos: Sequence[NetworkInfo], budget: BenchmarkBudget, fingerprints: Mapping[str, str]
) -> Iterator[Ladder]:
    """fp32 of all networks comes before any other setting: time may end at any cell.

    `fingerprints` are those of own networks, by name.
    """
    for setting in budget.settings:
        for info in infos:
            if setting.memory_format is MemoryFormat.CHANNELS_LAST and not info.takes_images:
                continue
            batches = budget.batches if setting.is_usual else budget.other_batches
            for task in _COMPUTED:
                # Batch normalisation of single values needs more rows in training.
                least = info.min_training_batch if task is Task.TRAINING else 1
                yield Ladder(
                    info=info,
                    task=task,
                    setting=setting,
                    batches=tuple(size for size in batches if size >= least),
                    fingerprint=fingerprints.get(info.name, ""),
                )


def next_cell(
    ladder: Ladder, machine: Machine, budget: BenchmarkBudget, done: Mapping[str, Measurement]
) -> Trial | None:
    """The first cell without a result, then the first that needs a further run; None once the
    ladder is done.

    It ends above a batch that found no memory or whose step takes longer than four seconds, and
    after two faults in a row: a single one (an abort, a hung kernel) costs one cell.
    """
    trials = [synthetic_trial(ladder, size, machine, budget) for size in ladder.batches]
    further = (trial for trial in trials if _needs_further_run(trial, done))
    return _first_unmeasured(trials, done) or next(further, None)


def _needs_further_run(trial: Trial, done: Mapping[str, Measurement]) -> bool:
    """Whether its good row has fewer runs than wanted; one that was spoiled is not made up for."""
    row = done.get(trial.trial_id)
    if row is None or row.status is not Status.OK:
        return False
    return 1 + len(row.repeats) + len(row.attempts) < wanted_runs(trial)


def _first_unmeasured(trials: Sequence[Trial], done: Mapping[str, Measurement]) -> Trial | None:
    faults = 0
    for trial in trials:
        row = done.get(trial.trial_id)
        if row is None:
            return trial
        faults = faults + 1 if row.status in _FAULTS else 0
        if faults == 2 or _is_last(row):
            return None
    return None


def _is_last(row: Measurement) -> bool:
    if row.status is Status.OUT_OF_MEMORY:
        return True
    return bool(row.step_seconds) and min(row.step_seconds) > LONGEST_STEP_SECONDS


def synthetic_trial(ladder: Ladder, batch_size: int, machine: Machine, budget: BenchmarkBudget) -> Trial:
    """The network alone, on a batch made on the device."""
    setting = ladder.setting
    is_anchor = batch_size == budget.anchor_batch and setting.is_usual and setting.precision is Precision.FP32
    more = budget.anchor_seconds - budget.seconds if is_anchor else 0.0
    plan = {
        "input": SYNTHETIC,
        "gpu": machine.gpu,
        "measure_seconds": budget.seconds + more,
        "min_steps": budget.min_steps,
        "max_seconds": budget.max_seconds + more,
    }
    if is_anchor:
        plan["repeats"] = budget.anchor_runs
        if machine.accelerator.is_gpu:
            plan["warmup_seconds"] = budget.anchor_seconds
    if machine.by_cpu_time:
        plan["clock"] = CPU_CLOCK
    if ladder.fingerprint:
        plan["network_fingerprint"] = ladder.fingerprint
    return Trial(
        workload=Workload(
            network=ladder.info.name,
            task=ladder.task,
            batch_size=batch_size,
            precision=setting.precision,
            stack=setting.stack,
            memory_format=setting.memory_format,
            dataset=_synthetic_profile(ladder.info),
        ),
        resources=machine.resources,
        accelerator=machine.accelerator,
        plan=plan,
    )


def with_pipeline(infos: Iterable[NetworkInfo]) -> list[NetworkInfo]:
    """The classifiers of photographs: what the real input pipeline is measured with."""
    return [info for info in infos if info.kind is Kind.IMAGE and Task.PREPROCESSING in info.tasks]


def pipeline_trials(
    infos: Iterable[NetworkInfo],
    machine: Machine,
    budget: BenchmarkBudget,
    dataset: DatasetProfile,
    dataset_path: str,
) -> list[Trial]:
    """The real input pipeline: 1, 2, 4, 8 and 16 vCPUs as far as the machine has them, for each
    classifier of photographs and each setting of the loaders. Memory and disk stay those of the
    machine."""
    trials: dict[str, Trial] = {}
    for info in with_pipeline(infos):
        for vcpus in (count for count in _VCPUS if count <= machine.resources.vcpus):
            for task in budget.pipeline_tasks:
                workload = Workload(
                    network=info.name, task=task, batch_size=budget.pipeline_batch, dataset=dataset
                )
                for loaders in budget.loaders:
                    trial = _pipeline_trial(workload, vcpus, machine, budget, loaders, dataset_path)
                    trials.setdefault(trial.trial_id, trial)
    return list(trials.values())


def _pipeline_trial(
    workload: Workload,
    vcpus: int,
    machine: Machine,
    budget: BenchmarkBudget,
    loaders: Loaders,
    dataset_path: str,
) -> Trial:
    whole = machine.resources
    threads_per_core = max(1, round(whole.vcpus / whole.physical_cores))
    return Trial(
        workload=workload,
        resources=Resources(
            vcpus=float(vcpus),
            physical_cores=float(min(vcpus, -(-vcpus // threads_per_core))),
            memory_mib=whole.memory_mib,
            disk=whole.disk,
            cpu=whole.cpu,
        ),
        accelerator=machine.accelerator,
        dataset_path=dataset_path,
        plan={
            "gpu": machine.gpu,
            "measure_seconds": budget.pipeline_seconds,
            "min_steps": budget.min_steps,
            "max_seconds": 4 * budget.pipeline_seconds,
            "loader_workers": loader_workers(loaders.share * vcpus),
            "prefetch_factor": loaders.prefetch_factor,
        },
    )


def host_resources(vcpus: float, physical_cores: float, memory_mib: float) -> Resources:
    """The whole machine, its disk as it is."""
    from advisor.sweeps.machine.environment import local_cpu

    return Resources(
        vcpus=float(vcpus),
        physical_cores=float(min(vcpus, physical_cores)),
        memory_mib=memory_mib,
        disk=DiskRate(type="unlimited"),
        cpu=local_cpu(),
    )


def _synthetic_profile(info: NetworkInfo) -> DatasetProfile:
    """One row as it lies on the device: nothing is stored, read or decoded."""
    values = 1
    for size in info.input_shape:
        values *= size
    width, height = (info.input_shape[-1], info.input_shape[-2]) if info.takes_images else (1, 1)
    return DatasetProfile(
        name=SYNTHETIC,
        samples=1,
        bytes_per_sample=float(values * _BYTES_PER_VALUE),
        storage_format=SYNTHETIC,
        width=width,
        height=height,
    )
