"""The input pipeline: trials and requests as columns, the rates of its stages, and the fitted parameters.

Rates are physical formulas with few parameters, in samples per second. Parameters are natural logarithms, so
that their values stay positive and priors are symmetric. GPU steps are modelled in `step_time`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, NamedTuple

import numpy as np
from msgspec import Meta, Struct, field
from msgspec.structs import replace
from numpy.typing import NDArray

from advisor.domain import MIB, CacheState, DataKind, Resources, Stage, Task, Trial, Workload
from advisor.domain.results import AUGMENTED, STORED_ORDER
from advisor.models.bayes import Floats
from advisor.models.performance.machines import (
    CONTENTION,
    FEWEST_TRIALS_OF_A_CPU,
    SECOND_THREAD,
    SECOND_THREAD_SIGMA,
    SPEED,
    Columns,
    CoreTrials,
    DiskTable,
    Integers,
    Ranges,
    ReferenceCpu,
    ResourceTable,
    useful_cores,
)
from advisor.models.performance.memory.steps import device_host_mib, loader_workers, pipeline_host_mib
from advisor.models.performance.networks import NetworkTable

STAGES = (Stage.ACCELERATOR, Stage.HOST, Stage.STORAGE, Stage.TRANSFER)
ALL_TRIALS = "trials"
# The default `prefetch_factor` of PyTorch's DataLoader. Several GPUs share these batches, but dividing
# them would let a second GPU slow down a host that cannot feed the first.
BATCHES_AHEAD_A_WORKER = 2
_PAGE_BYTES = 4096
# Disk operations relative to those of a file, which has an inode and several read-ahead windows: of a span
# in an open file, and of an LMDB record, whose mapped pages are read in windows of 128 KiB (32 pages) around
# each fault. The windows of a record of 49 pages hold 80; the others are evicted before they are needed.
_READS_OF_A_ROW = 0.25
_READS_OF_A_RECORD = 3.8 / 4.6
_WINDOWS_A_RECORD = 80 / 49
# Formats with many samples in a long file, which Caffe, MXNet and WebDataset read from end to end.
_CONTAINERS = frozenset({"lmdb", "recordio", "tar"})
_PIXELS = frozenset({"lmdb", "pixels"})
_BYTES_A_PIXEL = 3
WHOLE_EPOCH = (0.0, 1.0)
# The mean share of an image's area that a random crop keeps (uniform from 0.08 to 1), and the edge to which
# a served image is resized over that of its centre crop; torchvision's usual values.
_CROPPED_SHARE = 0.54
_SERVED_EDGE = 256 / 224
# Measured on one core of a Xeon: WordPiece and byte-pair tokenisers of Hugging Face's `tokenizers`
# take 2.9 and 2.7 MB/s, copies of random rows of a memory-mapped array into a batch 3.3 GB/s.
_SECONDS_PER_BYTE = {DataKind.TOKENS: 3.5e-7, DataKind.TENSOR: 3.0e-10}
# name: (mean, standard deviation) of the logarithm before anything is measured. Seconds are those of
# one core of the reference machine. Decoding is by Pillow with libjpeg-turbo; stored pixels have the ratio
# of torch's times to Pillow's. Block reads of an uncached JPEG file were counted. See
# docs/internals/model.md for both measurements.
PIPELINE_PRIORS: Mapping[str, tuple[float, float]] = {
    "host/seconds_per_sample": (np.log(6.0e-4), 0.5),
    "host/seconds_per_byte": (np.log(3.8e-9), 0.3),
    "host/seconds_per_decoded_pixel": (np.log(4.3e-9), 0.3),
    "host/seconds_per_resampled_pixel": (np.log(4.3e-9), 0.3),
    "host/seconds_per_output_pixel": (np.log(6.5e-9), 0.3),
    "host/stored_pixels": (np.log(0.4), 0.3),
    # The best fit to PassMark's marks of 23 x86 CPUs at all sizes (SpareCores): 0.0151, log sigma 0.12; five
    # Arm CPUs have 0.008 to 0.015. Trials on one or two cores contain almost no information about it.
    "host/contention": (np.log(0.0151), 0.25),
    "host/coherence": (np.log(1e-5), 0.7),
    "host/second_thread": (0.0, SECOND_THREAD_SIGMA),
    "cpu/sharing": (0.0, 0.15),
    "storage/disk_efficiency": (0.0, 0.05),
    "storage/operations_per_file": (np.log(4.6), 0.1),
    "storage/cached_bytes_per_second": (np.log(2e9), 0.5),
    # gamma: the exponent that joins stages of steady times: disks, decoding, networks on the CPU, an
    # emulated GPU. With a real GPU, factors over the exponent of a queue (`exponents`), in general and in
    # training; and the share of a training step that several GPUs wait for the last one's data. The last
    # three were measured on real GPUs (`stalls.py`).
    "join/gamma": (np.log(6.0), 0.6),
    "join/queue": (-0.14, 0.3),
    "join/training": (0.35, 0.2),
    "join/several_gpus": (0.06, 0.02),
}

# The exponents of smooth minima.
GAMMA_RANGE = (1.0, 20.0)
_LOG_2 = float(np.log(2.0))
# Clouds count a read of up to 256 KiB as one operation, and longer ones in proportion.
_FILE_BYTES = 256 * 1024
# Keeps a sample that neither disk nor memory limits from dividing by zero.
_SHORTEST_SECONDS = 1e-9


class PipelineColumns(Columns, frozen=True):
    """One row a request, every column of shape (n,).

    `cores` counts physical cores, `second_threads` the gain of their second threads, in cores. `score` is
    PassMark's single-thread mark (nan: unknown). Per sample, `stored_bytes` lie on the disk, `missed_bytes`
    are read if it is not cached, `encoded_bytes` and `decoded_pixels` are decoded (0 for stored pixels), and
    `resampled_pixels` are read and written to resize an image; `holds_pixels` is 1 where pixels are stored,
    else 0. `files` are those opened per sample, 0 if it is part of a long file read from end to end;
    `reading_seconds` is the work of a reference core on a sample that is no image, 0 for images.
    `cached_share` is the part of the reads that the page cache answers (`_hits`). `disk_bytes_per_second`
    and `disk_operations_per_second` (limited by IOPS and by latency, for which each loader process waits)
    are uncertain by factors from `disk_low` to `disk_high`. `copy_bytes_per_second` is infinite where no
    batch crosses a bus. `on_cpu` and `training` are 0 or 1. `batches_ahead` is the number that loaders
    prepare while a real GPU computes, else 0; `workers` counts loader processes. `cpu` indexes the CPUs of a
    sweep, 0 for the reference one and any whose speed is inferred from its mark."""

    cores: Floats
    second_threads: Floats
    vcpus: Floats
    score: Floats
    stored_bytes: Floats
    missed_bytes: Floats
    files: Floats
    reading_seconds: Floats
    encoded_bytes: Floats
    decoded_pixels: Floats
    resampled_pixels: Floats
    output_pixels: Floats
    holds_pixels: Floats
    batch_size: Floats
    cached_share: Floats
    disk_bytes_per_second: Floats
    disk_operations_per_second: Floats
    disk_low: Floats
    disk_high: Floats
    copy_bytes_per_second: Floats
    input_bytes: Floats
    on_cpu: Floats
    training: Floats
    gpu_count: Floats
    batches_ahead: Floats
    workers: Floats
    cpu: Integers

    def with_disks(self, rows: Integers, disks: DiskTable) -> PipelineColumns:
        """Some of the requests, each with another disk; `rows` and `disks` are of one length."""
        some = self.take(rows)
        return replace(
            some,
            disk_bytes_per_second=disks.mib_per_second * MIB,
            disk_operations_per_second=_operations(disks.iops, some.workers, disks.latency_seconds),
            disk_low=disks.low,
            disk_high=disks.high,
        )

    def with_disks_times(self, factor: Floats) -> PipelineColumns:
        """The requests, each with a disk `factor` (n,) times as fast."""
        return replace(
            self,
            disk_bytes_per_second=self.disk_bytes_per_second * factor,
            disk_operations_per_second=self.disk_operations_per_second * factor,
        )


class PipelineRequest(Struct, frozen=True):
    """The work of a machine; `on_cpu` says that the network runs on the CPU.

    Images are cropped at random if `augmented` (None: as usual for the task), else resized and cropped at
    the centre; `shuffled` samples are read from random places in their files. `epochs` are the start and end
    of the reads that count, in epochs after a first full pass over the data."""

    workload: Workload
    resources: Resources
    on_cpu: bool
    cache: CacheState = CacheState.WARM
    augmented: bool | None = None
    shuffled: bool = False
    epochs: tuple[float, float] = WHOLE_EPOCH

    @classmethod
    def of(cls, trial: Trial) -> PipelineRequest:
        """The work of a trial, loaded as its worker does."""
        # Images are cropped at random, or else at their centre; samples are read shuffled or as stored.
        augmented = trial.plan.get("transform", AUGMENTED) == AUGMENTED
        shuffled = trial.plan.get("order") != STORED_ORDER
        return cls(trial.workload, trial.resources, trial.network_on_cpu, trial.cache, augmented, shuffled)

    @property
    def is_read_in_order(self) -> bool:
        """True if a file of many samples is read from end to end."""
        dataset = self.workload.dataset
        in_container = dataset.storage_format in _CONTAINERS and dataset.kind is not DataKind.TENSOR
        return in_container and not self.shuffled


def pipeline_columns(requests: Sequence[PipelineRequest], networks: NetworkTable) -> PipelineColumns:
    """Columns for all requests, in their order; needs at least one."""
    machines = ResourceTable.of([request.resources for request in requests])
    return columns_of(requests, np.arange(len(requests)), machines, networks)


def columns_of(
    loads: Sequence[PipelineRequest], which: Integers, machines: ResourceTable, networks: NetworkTable
) -> PipelineColumns:
    """Columns of `machines` (n rows) with the work of `loads[which]`, whose own resources are ignored."""
    of_loads = np.array([_numbers(load, networks) for load in loads], dtype=float)
    numbers = np.take(of_loads.T, which, axis=1)
    stored, total_mib, output, batch, input_bytes, device_mib, on_cpu, training, crosses, warm = numbers[:10]
    encoded, decoded, resampled, holds_pixels, files, windows, reading, in_order, first, last = numbers[10:]
    vcpus, disks = machines.vcpus, machines.disks
    workers = loader_workers(vcpus)
    # The memory that processes do not need caches files.
    needed = pipeline_host_mib(workers, input_bytes * batch / MIB) + device_mib * machines.gpu_count
    room = (machines.memory_mib - needed) / total_mib
    return PipelineColumns(
        cores=np.minimum(vcpus, machines.physical_cores),
        second_threads=machines.second_thread_yields() * np.maximum(0.0, vcpus - machines.physical_cores),
        vcpus=vcpus,
        score=machines.marks(),
        stored_bytes=stored,
        missed_bytes=stored * windows,
        files=files,
        reading_seconds=reading,
        encoded_bytes=encoded,
        decoded_pixels=decoded,
        resampled_pixels=resampled,
        output_pixels=output,
        holds_pixels=holds_pixels,
        batch_size=batch,
        cached_share=warm * _hits(room, windows, in_order > 0, first, last),
        disk_bytes_per_second=disks.mib_per_second * MIB,
        disk_operations_per_second=_operations(disks.iops, workers, disks.latency_seconds),
        disk_low=disks.low,
        disk_high=disks.high,
        copy_bytes_per_second=np.where(crosses > 0, 1e9 * machines.copy_gb_per_second(), np.inf),
        input_bytes=input_bytes,
        on_cpu=on_cpu,
        training=training,
        gpu_count=machines.gpu_count,
        batches_ahead=crosses * BATCHES_AHEAD_A_WORKER * workers,
        workers=workers,
        cpu=np.zeros(len(machines), dtype=np.intp),
    )


def _operations(iops: Floats, workers: Floats, latency_seconds: Floats) -> Floats:
    """A disk's operations per second; each loader process waits for one read at a time."""
    return np.minimum(iops, workers / latency_seconds)


def _hits(room: Floats, windows: Floats, in_order: NDArray[np.bool_], first: Floats, last: Floats) -> Floats:
    """The share (n,) of reads from `first` to `last`, in epochs, that the page cache answers. `room` is its
    size over the data set's; `windows` (bytes read over bytes of a sample) divides what it holds.

    The cache drops what was read longest ago. With a new order each epoch, a sample read at time u of one
    epoch is still cached at v of the next if u (1 - v) >= 1 - room: far fewer than the cache holds, and most
    of them early in an epoch. When reading from end to end, each sample is dropped just before its turn.
    Linux's cache agreed with both within 0.1."""
    held = np.where(room >= 1, 1.0, np.maximum(0.0, room) / windows)

    def answered_until(moment: Floats) -> Floats:  # in epochs
        whole, rest = np.divmod(moment, 1.0)
        of_epoch = held + (1 - held) * np.log(np.maximum(1 - held, _SHORTEST_SECONDS))
        early = np.minimum(rest, held)
        of_rest = early + (1 - held) * np.log(np.maximum(1 - early, _SHORTEST_SECONDS))
        answered: Floats = whole * of_epoch + of_rest
        return answered

    shuffled = (answered_until(last) - answered_until(first)) / (last - first)
    hits: Floats = np.where(in_order, held >= 1, shuffled)
    return hits


def _numbers(load: PipelineRequest, networks: NetworkTable) -> tuple[float, ...]:
    """The numbers of a load that `columns_of` unpacks, in that order."""
    workload, dataset = load.workload, load.workload.dataset
    facts, on_gpu = networks.of(workload), load.resources.gpu is not None
    return (
        dataset.bytes_per_sample,
        dataset.total_mib,
        facts.pixels,
        workload.batch_size,
        facts.input_bytes,
        device_host_mib(facts, workload, on_gpu=on_gpu, on_cpu=load.on_cpu),
        load.on_cpu,
        workload.task is Task.TRAINING,
        on_gpu and workload.task != Task.PREPROCESSING,
        load.cache is not CacheState.COLD,
        *_image_work(load, facts.pixels),
        *_reads(load),
        _SECONDS_PER_BYTE.get(dataset.kind, 0.0) * dataset.bytes_per_sample,
        load.is_read_in_order,
        *load.epochs,
    )


def _image_work(load: PipelineRequest, output: float) -> tuple[float, ...]:
    """Encoded bytes, decoded pixels, resampled pixels, and whether pixels are stored."""
    dataset = load.workload.dataset
    holds_pixels = (
        dataset.storage_format in _PIXELS and dataset.bytes_per_sample >= _BYTES_A_PIXEL * dataset.pixels
    )
    augmented = load.workload.task is not Task.INFERENCE if load.augmented is None else load.augmented
    if augmented:
        resampled = _CROPPED_SHARE * dataset.pixels + output
    else:
        shorter, longer = sorted((dataset.width, dataset.height))
        edge = _SERVED_EDGE * output**0.5
        is_resized = abs(edge - shorter) > 1
        resampled = (dataset.pixels + edge**2 * longer / shorter) * is_resized
    encoded = (0.0, 0.0) if holds_pixels else (dataset.bytes_per_sample, dataset.pixels)
    return (*encoded, resampled, holds_pixels)


def _reads(load: PipelineRequest) -> tuple[float, float]:
    """Files opened per sample (as a share of a file's disk operations), and bytes read over bytes stored.

    Text is in long files that are read from end to end, like containers; each image has a file. A tensor is
    a row of an open file: one read, or less where a page holds several rows."""
    dataset = load.workload.dataset
    if dataset.kind is DataKind.TENSOR:
        return _READS_OF_A_ROW * min(1.0, dataset.bytes_per_sample / _PAGE_BYTES), 1.0
    if load.is_read_in_order:
        return 0.0, 1.0
    if dataset.storage_format in _CONTAINERS:
        mapped = dataset.storage_format == "lmdb"
        return (_READS_OF_A_RECORD, _WINDOWS_A_RECORD) if mapped else (_READS_OF_A_ROW, 1.0)
    return float(dataset.kind is DataKind.IMAGE), 1.0


def host_rate(columns: PipelineColumns, parameters: Mapping[str, float], reference_score: float) -> Floats:
    """Samples/s (n,) decoded and transformed by all cores; an unknown score counts as the reference's."""
    transforming = (
        np.exp(parameters["host/seconds_per_resampled_pixel"]) * columns.resampled_pixels
        + np.exp(parameters["host/seconds_per_output_pixel"]) * columns.output_pixels
    )
    decoding = (
        np.exp(parameters["host/seconds_per_sample"])
        + np.exp(parameters["host/seconds_per_byte"]) * columns.encoded_bytes
        + np.exp(parameters["host/seconds_per_decoded_pixel"]) * columns.decoded_pixels
        + np.exp(parameters["host/stored_pixels"] * columns.holds_pixels) * transforming
    )
    seconds = np.where(columns.reading_seconds > 0, columns.reading_seconds, decoding)
    cores = useful_cores(
        columns.cores + second_thread_cores(columns, parameters),
        np.exp(parameters[CONTENTION] + _own(CONTENTION, columns, parameters)),
        np.exp(parameters["host/coherence"]),
    )
    speed = np.where(np.isnan(columns.score), 1.0, columns.score / reference_score)
    rate: Floats = speed * np.exp(_own(SPEED, columns, parameters)) * cores / seconds
    return rate


def _own(name: str, columns: PipelineColumns, parameters: Mapping[str, float]) -> Floats | float:
    """The parameter `name` of each row's CPU (n,), 0 for the reference CPU."""
    if not columns.cpu.any():
        return 0.0
    others = range(1, int(columns.cpu.max()) + 1)
    return np.array([0.0, *(parameters[f"{name}/{cpu}"] for cpu in others)])[columns.cpu]


def second_thread_cores(columns: PipelineColumns, parameters: Mapping[str, float]) -> Floats:
    """The gain of second threads (n,), in cores, times a factor that sweeps fit."""
    factor = parameters[SECOND_THREAD] + _own(SECOND_THREAD, columns, parameters)
    added: Floats = columns.second_threads * np.exp(factor)
    return added


def storage_rate(columns: PipelineColumns, parameters: Mapping[str, float]) -> Floats:
    """Samples/s (n,) read: misses come from the disk, hits from the page cache.

    The time of a miss is that of its bytes or of its operations, whichever is longer. A file takes several
    operations (its inode, then growing read-ahead windows); a container that is read from end to end takes
    as few as clouds count for its size."""
    disk = columns.disk_bytes_per_second * np.exp(parameters["storage/disk_efficiency"])
    operations = np.maximum(
        np.exp(parameters["storage/operations_per_file"]) * columns.files, columns.missed_bytes / _FILE_BYTES
    )
    miss = np.maximum(columns.missed_bytes / disk, operations / columns.disk_operations_per_second)
    hit = columns.stored_bytes / np.exp(parameters["storage/cached_bytes_per_second"])
    share = columns.cached_share
    rate: Floats = 1 / ((1 - share) * miss + share * hit + _SHORTEST_SECONDS)
    return rate


# Groups of trials' residuals, by what bound the trial: a stage, or a disk with a page cache that answers some
# of the reads, which is predicted much worse than either alone.
TRIAL_GROUPS = (*(f"{ALL_TRIALS}/{stage}" for stage in STAGES), f"{ALL_TRIALS}/cache")


def trial_groups(weights: Floats, columns: PipelineColumns) -> Integers:
    """The group of each of n trials or requests, by the weights (n, stages) of their stages."""
    bound = weights.argmax(axis=1)
    share = columns.cached_share
    partly = (bound == STAGES.index(Stage.STORAGE)) & (share > 0) & (share < 1)
    return np.where(partly, len(STAGES), bound)


class CpuStep(NamedTuple):
    """A measured fp32 step on some cores of a user's CPU; `cpu` is an index into `Pipeline.cpus`."""

    network: str
    input: str | None
    task: Task
    batch_size: Annotated[int, Meta(gt=0)]
    cores: Annotated[float, Meta(gt=0)]
    seconds: Annotated[float, Meta(gt=0)]
    cpu: int = 0


class Pipeline(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Parameters of host, storage and join, fitted on sweeps.

    `largest_vcpus` is the most that a trial on the reference CPU had. `cpu_networks` ("resnet50/training")
    ran on the CPU; `cpu_steps` are their steps, unless the shipped step times were fitted on them.
    `residuals` are sorted held-out residuals of trials, by group and of all. `measured` has the ranges of
    the trials' facts (empty in older models). `other_cpus` are CPUs of trials besides the reference one, and
    `core_trials` is the evidence about each of them (empty in older models, which counts as none)."""

    parameters: Mapping[str, float]
    reference: ReferenceCpu
    largest_vcpus: float
    residuals: Mapping[str, Sequence[float]]
    cpu_networks: frozenset[str] = frozenset()
    cpu_steps: tuple[CpuStep, ...] = ()
    measured: Ranges = field(default_factory=dict)
    other_cpus: tuple[ReferenceCpu, ...] = ()
    core_trials: tuple[CoreTrials, ...] = ()

    @property
    def cpus(self) -> tuple[ReferenceCpu, ...]:
        """All CPUs that were measured, the reference one first."""
        return (self.reference, *self.other_cpus)

    @property
    def cpu_speeds(self) -> tuple[float, ...]:
        """The speed of each of `cpus`, relative to what its mark says."""
        others = range(1, len(self.cpus))
        return (1.0, *(float(np.exp(self.parameters[f"{SPEED}/{number}"])) for number in others))

    def other_cpu(self, machines: ResourceTable) -> Integers:
        """Index into `cpus` of each machine's CPU, shape (n,); 0 also for a CPU that is not in `cpus`."""
        places = {cpu.model: place for place, cpu in enumerate(self.other_cpus, 1) if cpu.model}
        return np.array([places.get(cpu.model, 0) if cpu else 0 for cpu in machines.cpus])[machines.cpu]

    def measured_on(self, resources: Resources) -> CoreTrials | None:
        """The evidence of trials on a CPU besides the reference one; None if there are too few."""
        model = resources.cpu.model if resources.cpu else ""
        # A user's machine comes after a shipped one of the same name, and takes precedence.
        for cpu, trials in reversed(list(zip(self.other_cpus, self.core_trials, strict=False))):
            if model and cpu.model == model and trials.number >= FEWEST_TRIALS_OF_A_CPU:
                return trials
        return None

    def stage_rates(self, columns: PipelineColumns, accelerator: Floats) -> Floats:
        """Rates (n, 4) in the order of `STAGES`; `accelerator` (n,) is infinite for preprocessing."""
        host = host_rate(columns, self.parameters, self.reference.score)
        storage = storage_rate(columns, self.parameters)
        # Batches cross the bus decoded, in fp32.
        transfer = columns.copy_bytes_per_second / columns.input_bytes
        return np.column_stack([accelerator, host, storage, transfer])

    def join(self, columns: PipelineColumns, rates: Floats) -> tuple[Floats, Floats]:
        """Joined rates (n,) of the stages' `rates` (n, 4), and the stages' weights (n, 4)."""
        logs, weights = join_logs(columns, logs_by_stage(rates), self.parameters)
        return np.exp(logs), weights.T


def join_logs(
    columns: PipelineColumns, logs: Floats, parameters: Mapping[str, float]
) -> tuple[Floats, Floats]:
    """Joined log rates (..., n) of `logs` (4, ..., n), and the weights d log R / d log R_stage."""
    gamma = exponents(columns.training, columns.batches_ahead, parameters)
    several = columns.training * (columns.gpu_count > 1)
    if several.any():
        logs = logs.copy()
        logs[0] -= parameters["join/several_gpus"] * several
    joined, weights = smooth_log_minimum(logs, gamma)
    rows = np.flatnonzero(columns.on_cpu)
    if len(rows):
        joined[..., rows], weights[..., rows] = _joined_on_cpu(
            logs[..., rows], gamma[rows], parameters["cpu/sharing"]
        )
    return joined, weights


def _joined_on_cpu(logs: Floats, gamma: Floats, sharing: float) -> tuple[Floats, Floats]:
    """As `join_logs`, where network and decoding run on the same cores: their times add."""
    network, host, *others = logs
    cores = -np.logaddexp(-network, sharing - host)
    joined, (weight, *rest) = smooth_log_minimum(np.stack([cores, *others]), gamma)
    of_network = np.exp(cores - network)
    return joined, np.stack([weight * of_network, weight * (1 - of_network), *rest])


def exponents(training: Floats, batches_ahead: Floats, parameters: Mapping[str, float]) -> Floats:
    """The exponent of each request's smooth minimum, (n,); `training` is 0 or 1.

    A real GPU waits for batches, whose times scatter, and loaders wait for room in the queue. If both are
    equally fast, a queue of K batches besides the one in use passes (K + 1) / (K + 2) of either side's rate
    (M/M/1/K). A smooth minimum does the same with the exponent log 2 / log((K + 2) / (K + 1)): 1 for K = 0,
    1.7 for K = 1, 6.6 for K = 8."""
    queue = _LOG_2 / np.log1p(1 / (batches_ahead + 1))
    beside_gpu = queue * np.exp(parameters["join/queue"] + parameters["join/training"] * training)
    gamma = np.where(batches_ahead > 0, beside_gpu, np.exp(parameters["join/gamma"]))
    return np.asarray(np.clip(gamma, *GAMMA_RANGE))


def logs_by_stage(rates: Floats) -> Floats:
    """Logarithms (stages, n) of `rates` (n, stages). The axes are swapped since reductions over stages take
    nine times as long if a request's stages are contiguous."""
    return np.asarray(np.log(np.ascontiguousarray(rates.T)))


def smooth_log_minimum(logs: Floats, gamma: float | Floats) -> tuple[Floats, Floats]:
    """The log of `R = (sum_k R_k^-gamma)^(-1/gamma)`, given log R_k (stages, ...), and the weights.

    A stage that a request lacks is infinite. The weights (stages, ...) are d log R / d log R_k: they sum to
    1, and the stage of the largest is the bottleneck."""
    # In logarithms: NumPy's power takes several times as long as exp and log together.
    lowest = logs.min(axis=0)
    powers = lowest - logs
    powers *= gamma
    np.exp(powers, out=powers)
    total = powers.sum(axis=0)
    powers /= total
    return lowest - np.log(total) / gamma, powers
