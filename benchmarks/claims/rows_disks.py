"""A09 to A16: what the disk and the format cost."""

from __future__ import annotations

import math
import statistics

from advisor.domain import Task
from benchmarks.claims.evidence import Evidence, full_speed, median_seconds, read_bytes_per_sample
from benchmarks.claims.scale import SCALE, cloud_disks
from benchmarks.claims.trials import INFERENCE, TRAINING
from benchmarks.claims.words import Finding, Kind, Verdict, agrees_if

_DISKS = (
    "Each image is read once, in stored order, from a cold LMDB, as Caffe does. Local NVMe is not "
    "throttled (no rate of gn5's is published); the others have the documented limits of a 500 GiB "
    "disk."
)
# Block reads of a JPEG file that is not cached (docs/internals/model.md).
_READS_A_FILE = 4.6
_TASK_OF_CONVERSION = "preprocessing"


def a09(evidence: Evidence) -> Finding:
    """Training: NVMe is as fast as the SSD cloud disk."""
    rates = _rates(evidence, TRAINING)
    loss = 100 * (1 - rates["ssd"] / rates["nvme"])
    return _disk_finding(evidence, TRAINING, f"SSD {loss:.1f} % slower", agrees_if(loss <= 1))


def a10(evidence: Evidence) -> Finding:
    """Training: the efficient disk is 1 % slower."""
    rates = _rates(evidence, TRAINING)
    loss = 100 * (1 - rates["efficient"] / rates["ssd"])
    return _disk_finding(evidence, TRAINING, f"efficient disk {loss:.1f} % slower", agrees_if(loss <= 2))


def a11(evidence: Evidence) -> Finding:
    """Inference: the efficient disk is 15 % slower."""
    rates = _rates(evidence, INFERENCE)
    ssd, efficient = (100 * (1 - rates[name] / rates["nvme"]) for name in ("ssd", "efficient"))
    cached = full_speed(list(evidence.memory().values())[-1])
    agrees = 10 <= efficient <= 20 and ssd < 3
    row = evidence.disks(INFERENCE)["efficient"]
    asked = SCALE * row.stage_rates["accelerator"]
    given = (cloud_disks()["efficient"].read_mb_per_second or math.inf) * 1e6
    given /= row.trial.workload.dataset.bytes_per_sample
    return _disk_finding(
        evidence,
        INFERENCE,
        f"SSD {ssd:.0f} % slower, efficient disk {efficient:.0f} %, and "
        f"{100 * (1 - cached / rates['nvme']):.0f} % with the data in the page cache",
        Verdict.AGREES if agrees else Verdict.PARTLY if efficient > 10 else Verdict.DIFFERS,
        f"The disk gives at most {given:.0f} Datums a second, the P100 takes {asked:.0f} by "
        "published rates: cold, the loss must be far above 15 %, which is that of a GPU at "
        f"{given / 0.85:.0f} images/s, or of a data set partly in the page cache. "
        "Training asks for less than the disk gives.",
    )


def a12(evidence: Evidence) -> Finding:
    """Inference needs at least the SSD cloud disk."""
    from advisor.catalog import load_catalog
    from advisor.domain import DiskChoice, Request
    from advisor.engine import Preparations, recommend
    from advisor.models.performance import load_model

    target = 0.9 * full_speed(evidence.disks(INFERENCE)["nvme"])
    catalog, model = load_catalog(), load_model()
    request = Request(network="googlenet", task=INFERENCE, target_throughput=target)
    free = recommend(request, Preparations(catalog, model), today=catalog.as_of)
    slow = Request(
        network="googlenet",
        task=INFERENCE,
        target_throughput=target,
        disk=DiskChoice(type="st1", size_gib=500.0),
    )
    held = recommend(slow, Preparations(catalog, model), today=catalog.as_of)
    met = all(one.prediction.lower >= target for one in free.ranked)
    disks = sorted({one.spec.disk.rate.type for one in free.ranked})
    return Finding(
        kind=Kind.MODELLED,
        verdict=agrees_if(met and held.chosen is None),
        ours=f"for {target:.0f} images/s `recommend` names {', '.join(disks) or 'nothing'}; with a "
        f"slow HDD volume (st1, 500 GiB) it names {'nothing' if held.chosen is None else 'one'}",
        why="The catalogue has AWS's disks: st1 stands for the slow one. Every spec's lower bound "
        "must reach the target, so a disk that cannot feed it is never recommended.",
        numbers={"target": round(target), "disks": disks, "ranked": len(free.ranked)},
    )


def a13(evidence: Evidence) -> Finding:
    """Preprocessing: NVMe 25 % faster than the SSD cloud disk."""
    return _conversion_finding(evidence, "nvme", "ssd", 0.75, 0.80)


def a14(evidence: Evidence) -> Finding:
    """Preprocessing: SSD 10 % faster than the efficient disk."""
    return _conversion_finding(evidence, "ssd", "efficient", 0.90, 0.91)


def a15(evidence: Evidence) -> Finding:
    """Preprocessing is the most sensitive to the disk, training the least."""
    ssd, efficient = (cloud_disks()[name] for name in ("ssd", "efficient"))
    disk_ratio = (ssd.read_mb_per_second or 1) / (efficient.read_mb_per_second or 1)
    ratios = {
        task.value: rates["ssd"] / rates["efficient"]
        for task, rates in ((one, _rates(evidence, one)) for one in (TRAINING, INFERENCE))
    }
    seconds = _seconds(evidence, 2.0, 2)
    ratios[_TASK_OF_CONVERSION] = seconds["efficient"] / seconds["ssd"]
    steep = {name: math.log(ratio) / math.log(disk_ratio) for name, ratio in ratios.items()}
    order = sorted(steep, key=lambda name: -steep[name])
    right = order == [_TASK_OF_CONVERSION, INFERENCE.value, TRAINING.value]
    least = order[-1] == TRAINING.value
    return Finding(
        kind=Kind.MEASURED,
        verdict=Verdict.AGREES if right else Verdict.PARTLY if least else Verdict.DIFFERS,
        ours="d log rate / d log disk rate, efficient to SSD: "
        + ", ".join(f"{name} {steep[name]:.2f}" for name in order),
        why="All with 8 vCPUs. Which of inference and conversion is steeper depends on cores and "
        "accelerator: inference reads stored pixels at the accelerator's pace, conversion reads "
        "JPEG files, half as large, at the pace of its cores.",
        scale=SCALE,
        numbers={"elasticity": {name: round(value, 3) for name, value in steep.items()}},
    )


def a16(evidence: Evidence) -> Finding:
    """187 KB an image in LMDB, 73 KB in RecordIO."""
    sizes = {name: one.bytes_per_sample for name, one in evidence.profiles.items()}
    gib = sizes["lmdb"] * 1_281_167 / 2**30
    return Finding(
        kind=Kind.MEASURED,
        verdict=Verdict.PARTLY,
        ours=", ".join(f"{name} {size / 1e3:.1f} kB" for name, size in sizes.items())
        + f" an image; ImageNet's images as LMDB {gib:.1f} GiB",
        why="The LMDB agrees if the article's 240 GB are 2**30 bytes: 256 x 256 x 3 bytes take 49 "
        "pages. Its RecordIO was resized before packing (im2rec); ours keeps the JPEG bytes, "
        "whose size is our photographs' (ImageNet: 110 kB).",
        numbers={name: round(size) for name, size in sizes.items()},
    )


def _rates(evidence: Evidence, task: Task) -> dict[str, float]:
    return {name: full_speed(row) for name, row in evidence.disks(task).items()}


def _disk_finding(evidence: Evidence, task: Task, ours: str, verdict: Verdict, why: str = "") -> Finding:
    rows = evidence.disks(task)
    return Finding(
        kind=Kind.MEASURED,
        verdict=verdict,
        ours=f"GoogLeNet: {ours}",
        why=f"{why} {_DISKS}".strip(),
        scale=SCALE,
        numbers={
            "samples_per_second": {name: round(full_speed(row), 1) for name, row in rows.items()},
            "bytes_read_per_sample": {n: read_bytes_per_sample(row) for n, row in rows.items()},
        },
    )


def _seconds(evidence: Evidence, vcpus: float, processes: int) -> dict[str, float]:
    runs = evidence.conversions(vcpus, processes)
    return {name: median_seconds(some) for name, some in runs.items()}


def _conversion_finding(evidence: Evidence, fast: str, slow: str, least: float, most: float) -> Finding:
    seconds, more = _seconds(evidence, 1.0, 1), _seconds(evidence, 2.0, 2)
    ratio, ratio_of_8 = seconds[fast] / seconds[slow], more[fast] / more[slow]
    waiting = {name: _waiting_seconds(evidence, name) for name in (fast, slow)}
    names = {name: disk.article_name for name, disk in cloud_disks().items()}
    ordered = seconds[fast] <= seconds[slow] * 1.02
    inside = least - 0.02 <= ratio <= most + 0.02
    return Finding(
        kind=Kind.MEASURED,
        verdict=Verdict.AGREES if inside else Verdict.PARTLY if ordered else Verdict.DIFFERS,
        ours=f"time on {names[fast]} over {names[slow]}: {ratio:.2f} with 4 vCPUs and one "
        f"converting process, {ratio_of_8:.2f} with 8 and two",
        why="`advisor dataset convert` from cold JPEG files to LMDB. Only reads are limited, in "
        "rate and operations; latencies and limits on writing are not emulated. A converter that "
        "waits for each read, as Caffe's does, would take "
        f"{waiting[fast] / waiting[slow]:.2f} of the time by arithmetic: our CPU time, and "
        f"{_READS_A_FILE} reads a file at the disks' shortest documented latencies (0.5 and 1 ms; "
        "0.1 ms assumed for NVMe).",
        scale=SCALE,
        numbers={
            "seconds_4_vcpus": {n: round(s, 2) for n, s in seconds.items()},
            "seconds_8_vcpus": {n: round(s, 2) for n, s in more.items()},
            "modelled_ratio_with_latency": round(waiting[fast] / waiting[slow], 3),
        },
    )


def _waiting_seconds(evidence: Evidence, disk: str) -> float:
    """Modelled time of an image for one thread that waits for its reads: CPU time measured."""
    runs = evidence.conversions(1.0, 1)["nvme"]
    computing = float(statistics.median(run["cpu_seconds"] / run["samples"] for run in runs))
    return computing + _READS_A_FILE * cloud_disks()[disk].latency_ms / 1e3
