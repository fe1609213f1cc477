"""What runs on real data, beside the same runs on synthetic data, tell of how stages join.

The runs are tf_cnn_benchmarks' (infra/build/performance_sources/stalls.csv), which prepares one batch
for each GPU while it computes. They are the only ones of real GPUs, so they tell how a real GPU and
the host beside it join: what they tell stands among the priors of a sweep's fit
(`PIPELINE_PRIORS`), and a test holds it to this fit.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from advisor.domain import IMAGENET
from advisor.models.bayes import Floats
from advisor.models.performance.pipeline import PipelineColumns, host_rate, join_logs, logs_by_stage

# Before any run: a queue's own exponent, tasks are alike, and several GPUs lose a few per cent.
STALL_PRIORS: Mapping[str, tuple[float, float]] = {
    "join/queue": (0.0, 0.5),
    "join/training": (0.0, 0.5),
    "join/several_gpus": (0.03, 0.05),
}
# Scatter of a rate; residuals are counted in it.
_SIGMA = 0.05
# Rows that real data hardly slows tell less of how stages join.
STALLED_BELOW = 0.95
_UNSTALLED_WEIGHT = 0.5
# What is known of a host's speed before it decodes anything: nothing.
_SPEED_SIGMA = 3.0


class StalledRuns(Struct, frozen=True):
    """n runs of image networks on real data: `columns` of one core a host, whose `hosts` (n,) are
    names; `synthetic` and `real` (n,) are samples/s. A host decodes at another speed with another
    augmentation, so both stand in its name."""

    columns: PipelineColumns
    hosts: NDArray[np.str_]
    synthetic: Floats
    real: Floats

    def take(self, chosen: NDArray[np.bool_]) -> StalledRuns:
        """The runs where `chosen` (n,) is true."""
        return StalledRuns(
            self.columns.take(chosen), self.hosts[chosen], self.synthetic[chosen], self.real[chosen]
        )


def stalled_runs(rows: list[dict[str, str]]) -> StalledRuns:
    """Runs from rows with the columns of stalls.csv; `ValueError` for what is no number."""

    def numbers(name: str) -> Floats:
        return np.array([float(row[name]) for row in rows])

    ones = np.ones(len(rows))
    columns = PipelineColumns(
        cores=ones,
        second_threads=0 * ones,
        vcpus=ones,
        score=np.nan * ones,
        stored_bytes=IMAGENET.bytes_per_sample * ones,
        missed_bytes=IMAGENET.bytes_per_sample * ones,
        files=ones,
        reading_seconds=0 * ones,
        encoded_bytes=IMAGENET.bytes_per_sample * ones,
        decoded_pixels=IMAGENET.pixels * ones,
        resampled_pixels=0 * ones,
        output_pixels=numbers("input_width") ** 2,
        holds_pixels=0 * ones,
        batch_size=numbers("batch_size"),
        cached_share=ones,
        disk_bytes_per_second=np.inf * ones,
        disk_operations_per_second=np.inf * ones,
        disk_low=ones,
        disk_high=ones,
        copy_bytes_per_second=np.inf * ones,
        input_bytes=12 * numbers("input_width") ** 2,
        on_cpu=0 * ones,
        training=np.array([float(row["task"] == "training") for row in rows]),
        gpu_count=numbers("gpus"),
        batches_ahead=ones,
        workers=ones,
        cpu=np.zeros(len(rows), dtype=np.intp),
    )
    return StalledRuns(
        columns,
        np.array([f"{row['host']}/{row['augmentation']}" for row in rows]),
        numbers("synthetic_samples_per_second"),
        numbers("real_samples_per_second"),
    )


def joined_log_rates(
    runs: StalledRuns, speeds: Mapping[str, float], parameters: Mapping[str, float]
) -> Floats:
    """Log samples per second (n,) on hosts whose log speeds, in reference cores, are these."""
    speed = np.array([speeds[host] for host in runs.hosts.tolist()])
    decoding = host_rate(runs.columns, parameters, 1.0) * np.exp(speed)
    none = np.full(len(speed), np.inf)
    stages = np.column_stack([runs.synthetic, decoding, none, none])
    return join_logs(runs.columns, logs_by_stage(stages), parameters)[0]


def host_speeds(runs: StalledRuns, parameters: Mapping[str, float]) -> dict[str, float]:
    """Each host's log speed, in reference cores, that its runs tell under these parameters."""
    return _fitted(runs, parameters, {})[1]


def fit_stalls(
    runs: StalledRuns, parameters: Mapping[str, float]
) -> tuple[dict[str, float], dict[str, float]]:
    """The likeliest values of `STALL_PRIORS`, beside `parameters` of decoding, and the standard
    deviations of what is left to doubt; each host's speed is fitted with them."""
    result, _, sigmas = _fitted(runs, parameters, STALL_PRIORS)
    return result, sigmas


def _fitted(
    runs: StalledRuns, parameters: Mapping[str, float], priors: Mapping[str, tuple[float, float]]
) -> tuple[dict[str, float], dict[str, float], dict[str, float]]:
    from scipy.optimize import least_squares

    hosts = sorted(set(runs.hosts.tolist()))
    # A host is at least as fast as its fastest run on real data.
    alone = host_rate(runs.columns, parameters, 1.0)
    fastest = [np.log((runs.real / alone)[runs.hosts == host].max()) for host in hosts]
    means = np.array([*(mean for mean, _ in priors.values()), *fastest])
    scales = np.array([*(sigma for _, sigma in priors.values()), *[_SPEED_SIGMA] * len(hosts)])
    stalled = runs.real < STALLED_BELOW * runs.synthetic
    weights = np.where(stalled, 1.0, _UNSTALLED_WEIGHT) / _SIGMA

    def split(units: Floats) -> tuple[dict[str, float], dict[str, float]]:
        values = (means + scales * units).tolist()
        count = len(priors)
        own = dict(zip(priors, values[:count], strict=True))
        return own, dict(zip(hosts, values[count:], strict=True))

    def residuals(units: Floats) -> Floats:
        own, speeds = split(units)
        logs = joined_log_rates(runs, speeds, {**parameters, **own})
        errors = (np.log(runs.real) - logs) * weights
        soft = np.sign(errors) * np.sqrt(8 * (np.sqrt(1 + errors**2 / 4) - 1))
        return np.concatenate([soft, units])

    best = least_squares(residuals, np.zeros(len(means)), bounds=(-6, 6))
    spread = scales * np.sqrt(np.diag(np.linalg.inv(best.jac.T @ best.jac)))
    own, speeds = split(best.x)
    return own, speeds, dict(zip(priors, spread.tolist(), strict=False))
