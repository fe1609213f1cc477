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

COLUMNS = ("stack", "host", "gpu", "network", "task", "precision", "tf32", "batch_size")
DEFAULT_PATH = Path(__file__).with_name("published.csv")

_TASKS = {"train": "training", "training": "training", "inference": "inference"}
_TORCHVISION_GPUS = {
    "GeForce RTX 2080 Ti": "RTX 2080 Ti",
    "TITAN Xp": "TITAN Xp",
    "TITAN RTX": "TITAN RTX",
    "A100-SXM4-40GB": "A100-SXM4-40GB",
    "GeForce GTX 1080 Ti": "GTX 1080 Ti",
    "TITAN V": "TITAN V",
}
_TIMM_NETWORKS = {
    "mobilenetv2_100": "mobilenet_v2",
    "mnasnet_100": "mnasnet1_0",
    "densenet121": "densenet121",
    "densenet161": "densenet161",
    "densenet169": "densenet169",
    "densenet201": "densenet201",
    "inception_v3": "inception_v3",
    "resnet18": "resnet18",
    "resnet34": "resnet34",
    "resnet50": "resnet50",
    "resnet101": "resnet101",
    "resnet152": "resnet152",
    "resnext50_32x4d": "resnext50_32x4d",
    "resnext101_32x8d": "resnext101_32x8d",
    "vgg11": "vgg11",
    "vgg11_bn": "vgg11_bn",
    "vgg13": "vgg13",
    "vgg13_bn": "vgg13_bn",
    "vgg16": "vgg16",
    "vgg16_bn": "vgg16_bn",
    "vgg19": "vgg19",
    "vgg19_bn": "vgg19_bn",
    "wide_resnet50_2": "wide_resnet50_2",
    "wide_resnet101_2": "wide_resnet101_2",
}
_TIMM_FILES = {
    "benchmark-infer-amp-nchw-pt210-cu121-rtx3090.csv": ("inference", "RTX 3090"),
    "benchmark-infer-amp-nchw-pt240-cu124-rtx3090.csv": ("inference", "RTX 3090"),
    "benchmark-infer-amp-nchw-pt240-cu124-rtx4090.csv": ("inference", "RTX 4090"),
    "benchmark-infer-amp-nchw-pt291-cu128-4090.csv": ("inference", "RTX 4090"),
    "benchmark-train-amp-nchw-pt112-cu113-rtx3090.csv": ("training", "RTX 3090"),
}
_PROFET_GPUS = {"g4dn.xlarge": "T4", "p3.2xlarge": "V100-SXM2-16GB", "g3s.xlarge": "M60"}
_PROFET_NETWORKS = {
    "ResNet18": "resnet18",
    "ResNet34": "resnet34",
    "ResNet50": "resnet50",
    "VGG11": "vgg11",
    "VGG13": "vgg13",
    "VGG16": "vgg16",
    "VGG19": "vgg19",
    "MobileNetV2": "mobilenet_v2",
}
# Runs without XLA and with one GPU; TF32 is on where the TensorFlow build had it.
_LAMBDA_SYSTEMS = {
    "7502-A100-PCIE-40GB": ("A100-PCIE-40GB", True),
    "7502-GeForce_RTX_3070": ("RTX 3070", True),
    "7662-GeForce_RTX_3090": ("RTX 3090", True),
    "7742-1xA100-SXM4-40GB_TF2_3": ("A100-SXM4-40GB", False),
    "Gold_6230-GeForce_RTX_2080_Ti_trt_TF1_15": ("RTX 2080 Ti", False),
    "Gold_6230-GeForce_RTX_2080_Ti_trt_TF2_2": ("RTX 2080 Ti", False),
    "Gold_6230-Quadro_RTX_8000_trt_TF1_15": ("Quadro RTX 8000", False),
    "Gold_6230-Quadro_RTX_8000_trt2_TF2_2": ("Quadro RTX 8000", False),
    "Platinum-Tesla_V100-SXM3-32GB_HP16_TF2_2": ("V100-SXM3-32GB", False),
    "Processor-LambdaCloud_1xQuadro_RTX_6000": ("Quadro RTX 6000", False),
    "i7-6850K-GeForce_GTX_1080_Ti": ("GTX 1080 Ti", False),
}
_LAMBDA_NETWORKS = {"inception3": "inception_v3"} | {
    name: name for name in ("alexnet", "resnet50", "resnet152", "vgg16")
}
_MXNET_GPUS = {"M40": "M40", "M60": "M60", "P100": "P100-SXM2-16GB", "V100": "V100-SXM2-16GB"}
_TORCH7_GPUS = {
    "GeForce GTX 1080": "GTX 1080",
    "TITAN X": "TITAN X (Pascal)",
    "GeForce GTX TITAN X": "TITAN X (Maxwell)",
    "GeForce GTX 1080 Ti": "GTX 1080 Ti",
}
_TORCH7_NETWORKS = {
    "googlenet-v1": "googlenet",
    "resnet-18": "resnet18",
    "resnet-34": "resnet34",
    "resnet-50": "resnet50",
    "resnet-101": "resnet101",
    "resnet-152": "resnet152",
    "vgg16": "vgg16",
    "vgg19": "vgg19",
}


def torchvision_rows(directory: Path) -> pd.DataFrame:
    """PyTorch 1.x, batch 12, torchvision networks on six GPUs (MIT)."""
    rows = pd.read_csv(_find(directory, "torchvision_gpu_benchmark.csv"))
    rows = rows[(rows.num_gpus == 1) & (rows.precision != "double")]
    return pd.DataFrame(
        {
            "stack": "pytorch-2020",
            "host": rows.folder,
            "gpu": rows.gpu.map(_TORCHVISION_GPUS),
            "network": rows.model,
            "task": rows.phase.map(_TASKS),
            "precision": rows.precision.map({"float": "fp32", "half": "half"}),
            "tf32": True,
            "batch_size": 12,
            "step_seconds": rows.median_ms / 1000,
        }
    )


def timm_rows(directory: Path) -> pd.DataFrame:
    """PyTorch 1.12 to 2.9, automatic mixed precision, NCHW, best batch (Apache-2.0)."""
    return pd.concat(
        [_timm_file(_find(directory, name), task, gpu) for name, (task, gpu) in _TIMM_FILES.items()]
    )


def _timm_file(path: Path, task: str, gpu: str) -> pd.DataFrame:
    rows = pd.read_csv(path)
    rows.columns = [column.removeprefix("infer_").removeprefix("train_") for column in rows]
    rows["network"] = rows.model.str.split(".").str[0].map(_TIMM_NETWORKS)
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
    rows = pd.read_csv(_find(directory, "gavel_isolated_throughputs.csv"))
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
    rows = pd.read_csv(_find(directory, "profet_training_latency.csv"))
    rows = rows[(rows.image_px == 224) & rows.instance_name.isin(_PROFET_GPUS)]
    rows = rows[rows.model.isin(_PROFET_NETWORKS)]
    cells = rows.groupby(["instance_name", "model", "batch_size"]).batch_latency_s.median()
    flat = cells.reset_index()
    return pd.DataFrame(
        {
            "stack": "tensorflow-keras",
            "host": flat.instance_name,
            "gpu": flat.instance_name.map(_PROFET_GPUS),
            "network": flat.model.map(_PROFET_NETWORKS),
            "task": "training",
            "precision": "fp32",
            "tf32": False,
            "batch_size": flat.batch_size,
            "step_seconds": flat.batch_latency_s,
        }
    )


def lambda_rows(directory: Path) -> pd.DataFrame:
    """tf_cnn_benchmarks, synthetic data, one GPU, no XLA (BSD style, Lambda Labs 2018)."""
    rows = pd.read_csv(_find(directory, "lambda_tf_cnn_benchmarks.csv"))
    rows = rows[rows.system.isin(_LAMBDA_SYSTEMS) & rows.ok & (rows.num_gpus == 1)]
    rows = rows[(rows["data"] == "syn") & rows.model.isin(_LAMBDA_NETWORKS)]
    return pd.DataFrame(
        {
            "stack": "tensorflow-cnn",
            "host": rows.system,
            "gpu": rows.system.map(lambda system: _LAMBDA_SYSTEMS[system][0]),
            "network": rows.model.map(_LAMBDA_NETWORKS),
            "task": rows.phase.map(_TASKS),
            "precision": rows.precision.map({"fp32": "fp32", "fp16": "half"}),
            "tf32": rows.system.map(lambda system: _LAMBDA_SYSTEMS[system][1]),
            "batch_size": rows.batch_size_total.astype(int),
            "step_seconds": rows.batch_size_total / rows.images_per_sec,
        }
    )


def framework_rows(directory: Path) -> pd.DataFrame:
    """MXNet's own figures (Apache-2.0) and Torch7 with cuDNN 5.1 by jcjohnson (MIT)."""
    rows = pd.read_csv(_find(directory, "throughput_frameworks_gpus.csv"))
    rows["step_seconds"] = rows.batch / pd.to_numeric(rows.throughput, errors="coerce")
    mxnet = rows[rows.source.str.contains("apache/mxnet") & rows.gpu.isin(_MXNET_GPUS)]
    names = ("alexnet", "inception_v3", "resnet50", "resnet152", "vgg16")
    mxnet = mxnet[mxnet.model.isin(names) & (mxnet.batch >= 4)]
    torch7 = rows[rows.source.str.contains("jcjohnson") & rows.model.isin(_TORCH7_NETWORKS)]
    torch7 = torch7[torch7.framework.str.contains("cuDNN 5105") & torch7.gpu.isin(_TORCH7_GPUS)]
    return pd.concat(
        [
            _framework_table(mxnet, "mxnet", _MXNET_GPUS, {name: name for name in names}),
            _framework_table(torch7, "torch7", _TORCH7_GPUS, _TORCH7_NETWORKS),
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


SOURCES: tuple[Callable[[Path], pd.DataFrame], ...] = (
    torchvision_rows,
    timm_rows,
    gavel_rows,
    profet_rows,
    lambda_rows,
    framework_rows,
)


def compact(directory: Path) -> pd.DataFrame:
    """All sources' rows, sorted; step seconds to four significant digits."""
    rows = pd.concat([read(directory) for read in SOURCES], ignore_index=True).dropna()
    rows["step_seconds"] = rows.step_seconds.map(lambda seconds: float(f"{seconds:.4g}"))
    return rows.sort_values([*COLUMNS, "step_seconds"])


def _find(directory: Path, name: str) -> Path:
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
