"""Makes published.csv from the sources' own files.

`python -m infra.performance_sources.compact DIR`, run in the repository's root.

DIR holds the files named in SOURCES.md, as their repositories have them. Needed only when a
source is added: the compact rows are committed.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pandas as pd

from infra.performance_sources.names import (
    LAMBDA_NETWORKS,
    LAMBDA_SYSTEMS,
    MLPERF_BATCH,
    MLPERF_GPUS,
    MXNET_GPUS,
    PROFET_GPUS,
    PROFET_NETWORKS,
    TASKS,
    TIMM_FILES,
    TIMM_NETWORKS,
    TORCH7_GPUS,
    TORCH7_NETWORKS,
    TORCHVISION_GPUS,
)

COLUMNS = ("stack", "host", "gpu", "network", "task", "precision", "tf32", "batch_size")
DEFAULT_PATH = Path(__file__).with_name("published.csv")


def torchvision_rows(directory: Path) -> pd.DataFrame:
    """PyTorch 1.x, batch 12, torchvision networks on six GPUs (MIT)."""
    rows = pd.read_csv(find_source(directory, "torchvision_gpu_benchmark.csv"))
    rows = rows[(rows.num_gpus == 1) & (rows.precision != "double")]
    return pd.DataFrame(
        {
            "stack": "pytorch-2020",
            "host": rows.folder,
            "gpu": rows.gpu.map(TORCHVISION_GPUS),
            "network": rows.model,
            "task": rows.phase.map(TASKS),
            "precision": rows.precision.map({"float": "fp32", "half": "half"}),
            "tf32": True,
            "batch_size": 12,
            "step_seconds": rows.median_ms / 1000,
        }
    )


def timm_rows(directory: Path) -> pd.DataFrame:
    """PyTorch 1.12 to 2.9, automatic mixed precision, NCHW, best batch (Apache-2.0)."""
    return pd.concat(
        [
            _timm_file(find_source(directory, name), task, gpu)
            for name, (task, gpu) in TIMM_FILES.items()
        ]
    )


def _timm_file(path: Path, task: str, gpu: str) -> pd.DataFrame:
    rows = pd.read_csv(path)
    rows.columns = [str(name).removeprefix("infer_").removeprefix("train_") for name in rows]
    rows["network"] = rows.model.str.split(".").str[0].map(TIMM_NETWORKS)
    rows = rows[rows.network.notna()]
    rows = rows[rows.img_size == rows.network.map(lambda n: 299 if n == "inception_v3" else 224)]
    return pd.DataFrame(
        {
            "stack": "pytorch-timm",
            "host": gpu,
            "gpu": gpu,
            "network": rows.network,
            "task": task,
            "precision": "amp",
            "tf32": True,
            "batch_size": rows.batch_size.astype(int),
            "step_seconds": rows.batch_size / rows.samples_per_sec,
        }
    )


def gavel_rows(directory: Path) -> pd.DataFrame:
    """PyTorch 1.x ResNet-50 training on V100 and P100, physical cluster (MIT)."""
    rows = pd.read_csv(find_source(directory, "gavel_isolated_throughputs.csv"))
    rows = rows[(rows.file == "physical") & (rows.model == "ResNet-50")]
    rows = rows[(rows.scale_factor_gpus == 1) & rows.gpu.isin(["v100", "p100"])]
    return pd.DataFrame(
        {
            "stack": "pytorch-gavel",
            "host": rows.gpu,
            "gpu": rows.gpu.map({"v100": "V100-SXM2-16GB", "p100": "P100-SXM2-16GB"}),
            "network": "resnet50",
            "task": "training",
            "precision": "fp32",
            "tf32": False,
            "batch_size": rows.batch_size.astype(int),
            "step_seconds": 1 / rows.throughput_steps_per_s,
        }
    )


def profet_rows(directory: Path) -> pd.DataFrame:
    """TensorFlow 2.5 Keras training on AWS g4dn, p3 and g3s at 224 pixels (MIT)."""
    rows = pd.read_csv(find_source(directory, "profet_training_latency.csv"))
    rows = rows[(rows.image_px == 224) & rows.instance_name.isin(PROFET_GPUS)]
    rows = rows[rows.model.isin(PROFET_NETWORKS)]
    cells = rows.groupby(["instance_name", "model", "batch_size"]).batch_latency_s.median()
    flat = cells.reset_index()
    return pd.DataFrame(
        {
            "stack": "tensorflow-keras",
            "host": flat.instance_name,
            "gpu": flat.instance_name.map(PROFET_GPUS),
            "network": flat.model.map(PROFET_NETWORKS),
            "task": "training",
            "precision": "fp32",
            "tf32": False,
            "batch_size": flat.batch_size,
            "step_seconds": flat.batch_latency_s,
        }
    )


def lambda_rows(directory: Path) -> pd.DataFrame:
    """tf_cnn_benchmarks, synthetic data, one GPU, no XLA (BSD style, Lambda Labs 2018)."""
    rows = pd.read_csv(find_source(directory, "lambda_tf_cnn_benchmarks.csv"))
    rows = rows[rows.system.isin(LAMBDA_SYSTEMS) & rows.ok & (rows.num_gpus == 1)]
    rows = rows[(rows["data"] == "syn") & rows.model.isin(LAMBDA_NETWORKS)]
    return pd.DataFrame(
        {
            "stack": "tensorflow-cnn",
            "host": rows.system,
            "gpu": rows.system.map(lambda system: LAMBDA_SYSTEMS[system][0]),
            "network": rows.model.map(LAMBDA_NETWORKS),
            "task": rows.phase.map(TASKS),
            "precision": rows.precision.map({"fp32": "fp32", "fp16": "half"}),
            "tf32": rows.system.map(lambda system: LAMBDA_SYSTEMS[system][1]),
            "batch_size": rows.batch_size_total.astype(int),
            "step_seconds": rows.batch_size_total / rows.images_per_sec,
        }
    )


def framework_rows(directory: Path) -> pd.DataFrame:
    """MXNet's own figures (Apache-2.0) and Torch7 with cuDNN 5.1 by jcjohnson (MIT)."""
    rows = pd.read_csv(find_source(directory, "throughput_frameworks_gpus.csv"))
    rows["step_seconds"] = rows.batch / pd.to_numeric(rows.throughput, errors="coerce")
    mxnet = rows[rows.source.str.contains("apache/mxnet") & rows.gpu.isin(MXNET_GPUS)]
    names = ("alexnet", "inception_v3", "resnet50", "resnet152", "vgg16")
    mxnet = mxnet[mxnet.model.isin(names) & (mxnet.batch >= 4)]
    torch7 = rows[rows.source.str.contains("jcjohnson") & rows.model.isin(TORCH7_NETWORKS)]
    torch7 = torch7[torch7.framework.str.contains("cuDNN 5105") & torch7.gpu.isin(TORCH7_GPUS)]
    return pd.concat(
        [
            _framework_table(mxnet, "mxnet", MXNET_GPUS, {name: name for name in names}),
            _framework_table(torch7, "torch7", TORCH7_GPUS, TORCH7_NETWORKS),
        ]
    )


def _framework_table(
    rows: pd.DataFrame, stack: str, gpus: dict[str, str], networks: dict[str, str]
) -> pd.DataFrame:
    return pd.DataFrame(
        {
            "stack": stack,
            "host": rows.gpu,
            "gpu": rows.gpu.map(gpus),
            "network": rows.model.map(networks),
            "task": rows.task.str.split("(").str[0],
            "precision": rows.precision.map({"fp32": "fp32", "fp16": "half"}),
            "tf32": False,
            "batch_size": rows.batch,
            "step_seconds": rows.step_seconds,
        }
    )


def mlperf_rows(directory: Path) -> pd.DataFrame:
    """TensorRT INT8 ResNet-50, offline, best submission of each GPU (MLPerf, Apache-2.0).

    On all these GPUs INT8 peaks at twice the fp16 rate, so the rows are filed as fp16 and the
    stack's offset takes the two. What they teach is how near a card comes to its data sheet.
    """
    rows = pd.read_csv(find_source(directory, "mlperf_inference_closed.csv"))
    rows = rows[rows.benchmark.isin(["resnet", "resnet50"]) & (rows.scenario == "offline")]
    rows = rows[rows.accelerator.isin(MLPERF_GPUS) & (rows.n_acc > 0)]
    best = (rows.samples_per_second / rows.n_acc).groupby(rows.accelerator.map(MLPERF_GPUS)).max()
    return pd.DataFrame(
        {
            "stack": "tensorrt-int8",
            "host": best.index,
            "gpu": best.index,
            "network": "resnet50",
            "task": "inference",
            "precision": "half",
            "tf32": False,
            "batch_size": MLPERF_BATCH,
            "step_seconds": MLPERF_BATCH / best.to_numpy(),
        }
    )


SOURCES: tuple[Callable[[Path], pd.DataFrame], ...] = (
    torchvision_rows,
    timm_rows,
    gavel_rows,
    profet_rows,
    lambda_rows,
    framework_rows,
    mlperf_rows,
)


def compact(directory: Path) -> pd.DataFrame:
    """All sources' rows, sorted; step seconds to four significant digits."""
    rows = pd.concat([read(directory) for read in SOURCES], ignore_index=True).dropna()
    rows["step_seconds"] = rows.step_seconds.map(lambda seconds: float(f"{seconds:.4g}"))
    return rows.sort_values([*COLUMNS, "step_seconds"])


def find_source(directory: Path, name: str) -> Path:
    """The file of that name below the folder; `FileNotFoundError` says where it is from."""
    found = sorted(directory.rglob(name))
    if not found:
        raise FileNotFoundError(
            f"{name} is not below {directory}; SOURCES.md says where it is from"
        )
    return found[0]


def main(arguments: Sequence[str]) -> None:
    """Write published.csv beside this file from the folder named."""
    compact(Path(arguments[0])).to_csv(DEFAULT_PATH, index=False)


if __name__ == "__main__":
    main(sys.argv[1:])
