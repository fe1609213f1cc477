"""Rates of the input pipeline's stages: host, storage, transfer, and networks on a CPU.

Physical forms with few parameters (MODEL.md). All rates are samples per second; parameters
are natural logarithms, so that all stay positive and priors are symmetric.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from advisor.domain import Stage
from models.performance.features import PipelineColumns
from models.performance.joining import smooth_log_minimum
from models.performance.networks import Floats
from models.performance.useful_cores import useful_cores

# Log standard deviation of what second threads add, over CPUs and kinds of work (docs/vcpus.md).
SECOND_THREAD_SIGMA = 0.42
# name: (mean, standard deviation) of the logarithm before anything is measured. Seconds are of
# one core of the reference machine; decoding figures are Pillow with libjpeg-turbo. Block reads
# of a JPEG file that is not cached were counted. See docs/model.md for both measurements.
PIPELINE_PRIORS: Mapping[str, tuple[float, float]] = {
    "host/seconds_per_sample": (np.log(1.0e-4), 0.8),
    "host/seconds_per_byte": (np.log(6.8e-9), 0.3),
    "host/seconds_per_decoded_pixel": (np.log(6.9e-9), 0.3),
    "host/seconds_per_output_pixel": (np.log(1.3e-8), 0.3),
    "host/contention": (np.log(0.01), 0.7),
    "host/coherence": (np.log(1e-5), 0.7),
    "host/second_thread": (0.0, SECOND_THREAD_SIGMA),
    "cpu/contention": (np.log(0.03), 0.7),
    "cpu/sharing": (0.0, 0.15),
    "storage/disk_efficiency": (0.0, 0.05),
    "storage/operations_per_file": (np.log(4.6), 0.1),
    "storage/cached_bytes_per_second": (np.log(2e9), 0.5),
    "join/gamma": (np.log(6.0), 0.6),
}

# Beyond this a file takes operations in proportion: clouds count up to 256 KiB as one.
_FILE_BYTES = 256 * 1024
# Keeps a sample that neither disk nor memory limits from dividing by zero.
_SHORTEST_SECONDS = 1e-9
STAGES = (Stage.ACCELERATOR, Stage.HOST, Stage.STORAGE, Stage.TRANSFER)
Parameters = Mapping[str, float]


def host_rate(columns: PipelineColumns, parameters: Parameters, reference_score: float) -> Floats:
    """Decoding and augmenting on all cores; a CPU of unknown score counts as the reference."""
    seconds = (
        np.exp(parameters["host/seconds_per_sample"])
        + np.exp(parameters["host/seconds_per_byte"]) * columns.stored_bytes
        + np.exp(parameters["host/seconds_per_decoded_pixel"]) * columns.decoded_pixels
        + np.exp(parameters["host/seconds_per_output_pixel"]) * columns.output_pixels
    )
    cores = useful_cores(
        columns.cores + second_thread_cores(columns, parameters),
        np.exp(parameters["host/contention"]),
        np.exp(parameters["host/coherence"]),
    )
    rate: Floats = relative_speed(columns, reference_score) * cores / seconds
    return rate


def second_thread_cores(columns: PipelineColumns, parameters: Parameters) -> Floats:
    """What second threads add, in whole cores (n,); a sweep on such threads moves the factor."""
    added: Floats = columns.second_threads * np.exp(parameters["host/second_thread"])
    return added


def cpu_network_rate(
    columns: PipelineColumns,
    log_core_rates: Floats,
    parameters: Parameters,
    reference_score: float,
) -> Floats:
    """A network on the CPU alone; `log_core_rates` (n,) is its rate on one reference core.

    Whole cores count: one thread of dense arithmetic keeps a core's multipliers busy.
    """
    cores = useful_cores(columns.cores, np.exp(parameters["cpu/contention"]), 0.0)
    rate: Floats = np.exp(log_core_rates) * cores * relative_speed(columns, reference_score)
    return rate


def stage_rates(
    columns: PipelineColumns,
    accelerator: Floats,
    parameters: Parameters,
    reference_score: float,
) -> Floats:
    """Rates (n, 4) in the order of `STAGES`; `accelerator` (n,) is infinite for preprocessing."""
    host = host_rate(columns, parameters, reference_score)
    return np.column_stack(
        [accelerator, host, storage_rate(columns, parameters), transfer_rate(columns)]
    )


def join_logs(on_cpu: Floats, logs: Floats, parameters: Parameters) -> tuple[Floats, Floats]:
    """Joined log rates (..., n) of the stages' `logs` (4, ..., n), and weights (4, ..., n),
    d log R / d log R_stage; `on_cpu` (n,) is 1 for a network that runs on the CPU."""
    accelerator, host, *others = logs
    gamma = math.exp(parameters["join/gamma"])
    shared = (on_cpu > 0) & np.isfinite(accelerator)
    if not shared.any():
        return smooth_log_minimum(logs, gamma)
    # Network and decoding on the same cores: their times add.
    cores = -np.logaddexp(-accelerator, parameters["cpu/sharing"] - host)
    parallel = [np.where(shared, np.inf, accelerator), np.where(shared, cores, host), *others]
    joined, weights = smooth_log_minimum(np.stack(parallel), gamma)
    network_part = np.where(shared, np.exp(cores - accelerator), 0.0)
    weights[0] += weights[1] * network_part
    weights[1] *= 1 - network_part
    return joined, weights


def storage_rate(columns: PipelineColumns, parameters: Parameters) -> Floats:
    """Misses come from the disk, hits from the page cache.

    A miss takes as long as the scarcer of bandwidth and operations allows: a file is read in
    several operations (its inode, then a read-ahead window that grows from small).
    """
    disk = columns.disk_bytes_per_second * np.exp(parameters["storage/disk_efficiency"])
    operations = np.exp(parameters["storage/operations_per_file"]) * np.maximum(
        1.0, columns.stored_bytes / _FILE_BYTES
    )
    miss = np.maximum(columns.stored_bytes / disk, operations / columns.disk_operations_per_second)
    hit = columns.stored_bytes / np.exp(parameters["storage/cached_bytes_per_second"])
    share = columns.cached_share
    rate: Floats = 1 / ((1 - share) * miss + share * hit + _SHORTEST_SECONDS)
    return rate


def transfer_rate(columns: PipelineColumns) -> Floats:
    """Decoded fp32 batches over the bus."""
    rate: Floats = columns.copy_bytes_per_second / columns.input_bytes
    return rate


def relative_speed(columns: PipelineColumns, reference_score: float) -> Floats:
    """Single-thread speed over the reference CPU's, 1 where the score is unknown."""
    speed: Floats = np.where(np.isnan(columns.score), 1.0, columns.score / reference_score)
    return speed
