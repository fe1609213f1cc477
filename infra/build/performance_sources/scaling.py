"""Makes scaling.csv: how much longer a step takes when several GPUs of a host share it.

`python -m advisor.infra.build.performance_sources.scaling DIR`, run in the repository's root. DIR holds the
sources' original files (SOURCES.md). Every row is a run on several GPUs, paired with the run of the same
network, precision, software and batch size *per GPU* on one GPU of the same machine."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from advisor.infra.build.performance_sources.naming import LAMBDA_NETWORKS, TASKS, find_source

DEFAULT_PATH = Path(__file__).with_name("scaling.csv")
COLUMNS = ("source", "system", "gpu", "network", "task", "precision", "batch_size", "gpus")
# Parameters of torchvision's and timm's networks, and of BERT base with the question-answering head; of
# NVIDIA's examples from their papers, approximate for SSD and nnU-Net.
PARAMETERS = {
    "alexnet": 61_100_840,
    "bert": 108_893_186,
    "inception_v3": 23_834_568,
    "inception_v4": 42_679_816,
    "jasper": 333_000_000,
    "nnunet": 31_000_000,
    "quartznet": 18_900_000,
    "resnet18": 11_173_962,
    "resnet50": 25_557_032,
    "resnet152": 60_192_808,
    "ssd300-resnet50": 23_000_000,
    "transformer-big": 213_000_000,
    "transformer-xl-base": 192_000_000,
    "vgg16": 138_357_544,
}
_CELL = ["system", "network", "task", "precision", "batch_size"]
_LAMBDA_NETWORKS = LAMBDA_NETWORKS | {"inception4": "inception_v4"}
_TENSORFLOW_NETWORKS = {
    "AlexNet": "alexnet",
    "InceptionV3": "inception_v3",
    "ResNet-50": "resnet50",
    "ResNet-152": "resnet152",
    "VGG16": "vgg16",
}
# Parameters of Pollux's other workloads (NCF, speech, detection) are not stated.
_POLLUX_NETWORKS = {"imagenet": "resnet50", "cifar10": "resnet18", "bert": "bert"}
# Network name, and samples per batch item in the rate: Transformer-XL counts a sequence's 192 tokens.
_NVIDIA_NETWORKS = {
    "Detection/SSD": ("ssd300-resnet50", 1),
    "LanguageModeling/Transformer-XL": ("transformer-xl-base", 192),
    "Segmentation/nnUNet": ("nnunet", 1),
    "SpeechRecognition/Jasper": ("jasper", 1),
    "SpeechRecognition/QuartzNet": ("quartznet", 1),
    "Translation/Transformer": ("transformer-big", 1),
}
_POLLUX_PLACEMENTS = {"1": 1, "2": 2, "3": 3, "4": 4}


def lambda_rows(directory: Path) -> pd.DataFrame:
    """tf_cnn_benchmarks with replicated variables, synthetic data (BSD style, Lambda Labs 2018).

    Its `--batch_size` is of one device, whatever the file's column is called. One process drives all GPUs,
    and in half precision without XLA it launches too slowly for eight of them: networks of many kernels keep
    0.48 to 0.57 on the very machines where they keep 0.95 with XLA, and VGG and AlexNet 0.97. PyTorch has a
    process for each GPU, so those training rows are left out."""
    rows = pd.read_csv(find_source(directory, "lambda_tf_cnn_benchmarks.csv"))
    rows = rows[(rows["data"] == "syn") & rows.ok & (rows["update"] == "replicated")]
    by_launching = (rows.precision == "fp16") & ~rows.system.str.contains("XLA")
    rows = rows[~(by_launching & (rows.phase == "train"))]
    return pd.DataFrame(
        {
            "source": "lambda",
            "system": rows.system,
            "gpu": rows.system.map(_lambda_gpu),
            "network": rows.model.map(_LAMBDA_NETWORKS),
            "task": rows.phase.map(TASKS),
            "precision": rows.precision.map({"fp32": "fp32", "fp16": "half"}),
            "batch_size": rows.batch_size_total.astype(int),
            "gpus": rows.num_gpus,
            "step_seconds": rows.batch_size_total * rows.num_gpus / rows.images_per_sec,
        }
    )


def tensorflow_rows(directory: Path) -> pd.DataFrame:
    """TensorFlow's official figures of 2017 on one host, synthetic data (Apache-2.0)."""
    rows = pd.read_csv(find_source(directory, "tf_benchmarks_2017.csv"))
    rows = rows[(rows["data"] == "synthetic") & ~rows.platform.str.contains("Distributed")]
    return pd.DataFrame(
        {
            "source": "tensorflow-docs",
            "system": rows.platform.str.replace(r"[^\w() -]", "", regex=True),
            "gpu": rows.platform.map(lambda name: "P100-SXM2-16GB" if "P100" in name else "K80"),
            "network": rows.model.map(_TENSORFLOW_NETWORKS),
            "task": "training",
            "precision": "fp32",
            "batch_size": rows.batch_per_gpu,
            "gpus": rows.num_gpus,
            "step_seconds": rows.batch_per_gpu * rows.num_gpus / rows.images_per_sec,
        }
    )


def pollux_rows(directory: Path) -> pd.DataFrame:
    """PyTorch DistributedDataParallel on one g4dn.12xlarge, by local batch size (Apache-2.0)."""
    rows = pd.read_csv(find_source(directory, "pollux_placements.csv"), dtype={"placement": str})
    rows = rows[rows.placement.isin(_POLLUX_PLACEMENTS)]
    return pd.DataFrame(
        {
            "source": "pollux",
            "system": "g4dn.12xlarge",
            "gpu": "T4",
            "network": rows.model.map(_POLLUX_NETWORKS),
            "task": "training",
            "precision": "unsaid",
            "batch_size": rows.local_bsz,
            "gpus": rows.placement.map(_POLLUX_PLACEMENTS),
            "step_seconds": rows.step_time,
        }
    )


def nvidia_rows(directory: Path) -> pd.DataFrame:
    """NVIDIA's PyTorch examples, one process per GPU, on DGX-1, DGX-2 and DGX A100 (BSD-3, Apache-2.0).

    Only examples that state the batch per GPU and also train at full speed on one GPU."""
    rows = pd.read_csv(find_source(directory, "nvidia_dle_pytorch.csv"))
    rows = rows[(rows.task == "training") & rows.network.isin(_NVIDIA_NETWORKS) & rows.batch_size.notna()]
    rows = rows[~rows.notes.str.contains("Large model")]
    gpus = [_dgx_gpu(gpu, notes) for gpu, notes in zip(rows.gpu, rows.notes, strict=True)]
    by_batch = rows.network.map(lambda name: _NVIDIA_NETWORKS[name][1])
    table = pd.DataFrame(
        {
            "source": "nvidia-dle",
            "system": [f"DGX of {gpu}" for gpu in gpus],
            "gpu": gpus,
            "network": rows.network.map(lambda name: _NVIDIA_NETWORKS[name][0]),
            "task": rows.task,
            "precision": rows.precision,
            "batch_size": rows.batch_size.astype(int),
            "gpus": rows.gpu_count,
            "step_seconds": rows.batch_size * by_batch * rows.gpu_count / rows.samples_per_second,
        }
    )
    return table.groupby(list(COLUMNS), as_index=False).median()


def _dgx_gpu(gpu: str, notes: str) -> str:
    """'V100-32GB' of a DGX-2 -> 'V100-SXM3-32GB'."""
    chip, _, memory = gpu.partition("-")
    board = "SXM4" if chip == "A100" else "SXM3" if "16x" in notes else "SXM2"
    return f"{chip}-{board}-{memory}"


def compact(directory: Path) -> pd.DataFrame:
    """All runs on several GPUs, sorted; `efficiency` is the step time on one GPU over theirs."""
    sources = [read(directory) for read in (lambda_rows, tensorflow_rows, pollux_rows, nvidia_rows)]
    rows = pd.concat(sources, ignore_index=True).dropna()
    several = rows[rows.gpus > 1]
    pairs = several.merge(rows[rows.gpus == 1], on=_CELL, suffixes=("", "_of_one"))
    pairs["efficiency"] = (pairs.step_seconds_of_one / pairs.step_seconds).round(4)
    pairs["one_gpu_step_seconds"] = pairs.step_seconds_of_one.map(lambda s: float(f"{s:.4g}"))
    pairs["parameters"] = pairs.network.map(PARAMETERS)
    table = pairs[[*COLUMNS, "parameters", "one_gpu_step_seconds", "efficiency"]]
    return table.astype({"gpus": int, "batch_size": int}).sort_values(list(COLUMNS))


def _lambda_gpu(system: str) -> str | None:
    """'Gold_6230-GeForce_RTX_2080_Ti_NVLink_XLA_trt_TF2_2' -> 'RTX 2080 Ti'."""
    name = system.partition("-")[2].removeprefix("LambdaCloud_")
    name = re.sub(r"^\d+x", "", name)
    name = re.sub(r"_(NVLink|XLA|trt|trt2|HP16|TF\d_\d+)(?=_|$)", "", name)
    return re.sub(r"^(GeForce|Tesla) ", "", name.replace("_", " ")) or None


def main(arguments: Sequence[str]) -> None:
    """Write scaling.csv beside this file from the folder named."""
    compact(Path(arguments[0])).to_csv(DEFAULT_PATH, index=False)


if __name__ == "__main__":
    main(sys.argv[1:])
