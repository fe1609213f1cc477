"""Measured steps of the large public tables: timm, torchvision, Keras, tf_cnn_benchmarks and similar.

Each reader returns a table with those columns of `observations.COLUMNS` that its source has, one row per
step. Comments and SOURCES.md say what is left out, and why."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from advisor.infra.build.performance_sources.naming import (
    MLPERF_BATCH,
    MXNET_GPUS,
    TASKS,
    TORCH7_GPUS,
    find_source,
    gpu_of,
    named,
)

# Values that most sources share; a reader sets those that differ.
_USUAL = {"stack": "eager", "memory_format": "contiguous", "tf32": "none", "gpu_count": 1}
_TIMM_FILE = re.compile(
    r"benchmark-(?P<phase>infer|train)-(?P<precision>amp|amp_bf16|bf16|fp32)-(?P<format>nchw|nhwc)-"
    r"(?P<era>pt\d+)-cu\d+-(?P<gpu>[a-z0-9_]+?)(?P<compiled>-dynamo)?$"
)
_TIMM_GPUS = {"rtx3090": "RTX 3090", "rtx4090": "RTX 4090", "4090": "RTX 4090"}
# timm folds these networks' branches before it measures inference, in its files after PyTorch 2.4.
_FOLDABLE = re.compile(r"repvgg|mobileone|fastvit|repvit|repghost|ghostnetv3|fasternet|mobileclip")


def timm(folder: Path) -> pd.DataFrame:
    """PyTorch 1.12 to 2.9, automatic mixed precision, the best batch (Apache-2.0)."""
    tables = [_timm_file(path) for path in sorted(folder.rglob("benchmark-*.csv"))]
    if not tables:
        raise FileNotFoundError(f"no benchmark-*.csv is below {folder}; SOURCES.md says where they are from")
    rows = pd.concat([table for table in tables if table is not None], ignore_index=True)
    # Several tags of weights of one network make one step, with their median.
    cell = ["network", "task", "stack", "framework", "memory_format", "gpu", "input", "batch_size"]
    rows["sigma"] = 0.02
    first = rows.groupby(cell, as_index=False).first()
    first["step_seconds"] = rows.groupby(cell).step_seconds.median().to_numpy()
    # In channels_last, PyTorch 1's reflection padding is several times slower; current versions are not.
    slow = first.network.str.startswith("tresnet") & (first.memory_format == "channels_last")
    first["fit"] = (~(slow & first.framework.str.startswith("pt11"))).astype(int)
    return first


def _timm_file(path: Path) -> pd.DataFrame | None:
    match = _TIMM_FILE.match(path.stem)
    if match is None:  # a file of a CPU
        return None
    rows = pd.read_csv(path)
    rows.columns = [str(name).removeprefix("infer_").removeprefix("train_") for name in rows]
    for column in ("samples_per_sec", "batch_size", "img_size"):
        rows[column] = pd.to_numeric(rows[column], errors="coerce")
    rows = rows[(rows.samples_per_sec > 0) & (rows.batch_size > 0) & (rows.img_size > 0)]
    folded = (match["phase"] == "infer") & (int(match["era"][2:]) > 240)
    network = rows.model.map(lambda name: named("timm", name).network)
    if folded:
        network = network.map(lambda name: f"{name}+folded" if _FOLDABLE.search(name) else name)
    side = rows.img_size.astype(int).astype(str)
    bf16 = "bf16" in match["precision"]
    precision = "bf16" if bf16 else match["precision"]
    gpu = _TIMM_GPUS.get(match["gpu"], match["gpu"])
    return pd.DataFrame(
        {
            "source": "timm",
            "network": network,
            "task": "inference" if match["phase"] == "infer" else "training",
            "stack": "compile" if match["compiled"] else "eager",
            "framework": match["era"],
            "memory_format": "channels_last" if match["format"] == "nhwc" else "contiguous",
            "precision": precision,
            "tf32": "conv",
            "gpu": gpu,
            "gpu_count": 1,
            "batch_size": rows.batch_size,
            "input": "3x" + side + "x" + side,
            "step_seconds": rows.batch_size / rows.samples_per_sec,
            "host": f"timm/{gpu}",
            "licence": "Apache-2.0",
        }
    )


def torchvision(folder: Path) -> pd.DataFrame:
    """PyTorch 1.x, batch 12, fp32 and entirely fp16, torchvision networks (MIT).

    The step includes the copy of the batch to the GPU; training has no optimiser step."""
    rows = pd.read_csv(find_source(folder, "torchvision_gpu_benchmark.csv"))
    # Left out: DataParallel on several GPUs, which copies the network at each step, and double.
    rows = rows[(rows.num_gpus == 1) & rows.precision.isin(["float", "half"])]
    spread = (rows.std_ms / rows.mean_ms / rows.n**0.5).clip(0.005, 0.1)
    return pd.DataFrame(
        {
            **_USUAL,
            "source": "pytorch-gpu-benchmark",
            "network": rows.model,
            "task": rows.phase.map(TASKS),
            "framework": rows.repo.str.startswith("elombardi").map({True: "pt1x-b", False: "pt1x"}),
            "precision": rows.precision.map({"float": "fp32", "half": "fp16"}),
            "tf32": "all",  # on by default for matrix products in PyTorch 1.7 to 1.11
            "gpu": rows.gpu.map(gpu_of),
            "batch_size": 12,
            "input": "3x224x224",
            "step_seconds": rows.median_ms / 1000,
            "sigma": spread,
            "host": "pgb/" + rows.folder,
            "licence": "MIT",
        }
    )


def gavel(folder: Path) -> pd.DataFrame:
    """PyTorch 1.x training on V100, P100 and K80, real input (MIT)."""
    rows = pd.read_csv(find_source(folder, "gavel_isolated_throughputs.csv"))
    rows = rows[(rows.file == "physical") & (rows.scale_factor_gpus == 1)]
    rows = rows[rows.gpu.isin(["v100", "p100", "k80"]) & (rows.throughput_steps_per_s > 0)]
    # `Recommendation`, `Transformer`, `A3C` and `CycleGAN` are not described well enough.
    rows = rows[rows.model.isin(["ResNet-50", "ResNet-18"])]
    gpus = {"v100": "V100-SXM2-16GB", "p100": "P100-SXM2-16GB", "k80": "K80"}
    names = [named("gavel", name) for name in rows.model]
    return pd.DataFrame(
        {
            **_USUAL,
            "source": "gavel",
            "network": [name.network for name in names],
            "task": "training",
            "framework": "pt1x",
            "precision": "fp32",
            "gpu": rows.gpu.map(gpus),
            "batch_size": rows.batch_size,
            "input": [name.input for name in names],
            "step_seconds": 1 / rows.throughput_steps_per_s,
            "sigma": 0.05,
            "host": "gavel/" + rows.gpu,
            "licence": "MIT",
            # CIFAR's steps wait for their input; ImageNet's hardly do.
            "fit": (rows.model == "ResNet-50").astype(int),
        }
    )


_PROFETS_OWN = ("AlexNet", "CIFAR10_CNN", "LeNet5", "MNIST_CNN", "ResNetSmall")


def profet(folder: Path) -> pd.DataFrame:
    """TensorFlow 2.5 Keras training on AWS g4dn, p3 (and g3s, p2) at 32 to 256 pixels (MIT).

    Only networks whose layers are in the table: the small ones, and AlexNet without strides, are the authors'
    designs."""
    rows = pd.read_csv(find_source(folder, "profet_training_latency.csv"))
    gpus = {"g4dn.xlarge": "T4", "p3.2xlarge": "V100-SXM2-16GB", "g3s.xlarge": "M60"}
    rows = rows[rows.instance_name.isin(gpus)]
    rows = rows[~rows.model.isin(_PROFETS_OWN)]
    cell = ["instance_name", "model", "image_px", "batch_size"]
    groups = rows.groupby(cell).batch_latency_s
    flat = groups.median().reset_index()
    spread = (groups.std() / groups.mean() / groups.size() ** 0.5).to_numpy()
    side = flat.image_px.astype(str)
    return pd.DataFrame(
        {
            **_USUAL,
            "source": "profet",
            "network": [named("profet", name).network for name in flat.model],
            "task": "training",
            "stack": "tensorflow",
            "framework": "keras-2.5",
            "memory_format": "channels_last",
            "precision": "fp32",
            "gpu": flat.instance_name.map(gpus),
            "batch_size": flat.batch_size,
            "input": "3x" + side + "x" + side,
            "step_seconds": flat.batch_latency_s,
            "sigma": pd.Series(spread).fillna(0.05).clip(0.01, 0.2),
            "host": "profet/" + flat.instance_name,
            "licence": "MIT",
        }
    )


def lambda_tf(folder: Path) -> pd.DataFrame:
    """tf_cnn_benchmarks, synthetic data, one GPU, with and without XLA (BSD style)."""
    rows = pd.read_csv(find_source(folder, "lambda_tf_cnn_benchmarks.csv"))
    systems = pd.read_csv(find_source(folder, "lambda_tf_system_metadata.csv"), dtype=str)
    facts = systems.set_index("system").fillna("").to_dict("index")
    rows = rows[rows.ok & (rows.num_gpus == 1) & (rows["data"] == "syn") & (rows.images_per_sec > 0)]
    rows = rows[rows.system.isin(facts) & ~rows.system.str.contains("Radeon")]
    # VGG-16 with TensorFlow 2.3 on the A100 trains at 70 images/s: a known fault.
    rows = rows[~(rows.system.str.contains("TF2_3") & (rows.model == "vgg16"))]
    names = [named("lambda-tf", name) for name in rows.model]
    xla = rows.system.str.contains("_XLA")
    return pd.DataFrame(
        {
            **_USUAL,
            "source": "lambda-tf",
            "network": [name.network for name in names],
            "task": rows.phase.map(TASKS),
            "stack": "tensorflow",
            "framework": ["cnn-xla" if entry else "cnn" for entry in xla],
            "precision": rows.precision.map({"fp32": "fp32", "fp16": "fp16"}),
            "tf32": ["all" if _has_tf32(facts[system]) else "none" for system in rows.system],
            "gpu": [gpu_of(facts[system]["GPU 0"]) for system in rows.system],
            "batch_size": rows.batch_size_total,
            "input": [name.input or "3x224x224" for name in names],
            "step_seconds": rows.batch_size_total / rows.images_per_sec,
            "sigma": 0.02,
            "host": "lambda-tf/" + rows.system,
            "licence": "BSD (Lambda Labs 2018)",
        }
    )


def _has_tf32(facts: Mapping[Any, Any]) -> bool:
    """True if TF32 is on: in TensorFlow from 2.4, and in NVIDIA's 1.15 built on CUDA 11."""
    cuda = re.match(r"V?(\d+)", facts["CUDA"])
    release = re.match(r"(\d+)\.(\d+)", facts["TF"])
    if not cuda or int(cuda[1]) < 11 or not release:
        return False
    version = (int(release[1]), int(release[2]))
    return version[0] < 2 or version >= (2, 4)


def tf_official(folder: Path) -> pd.DataFrame:
    """TensorFlow 1.1's official figures, synthetic data, one GPU (Apache-2.0)."""
    rows = pd.read_csv(find_source(folder, "tf_benchmarks_2017.csv"))
    rows = rows[(rows.num_gpus == 1) & (rows["data"] == "synthetic")]
    rows = rows[~rows.platform.str.contains("Distributed")]
    names = [named("tf-official", name) for name in rows.model]
    plain = {"ResNet-50": "resnet50", "ResNet-152": "resnet152", "AlexNet": "alexnet"}
    return pd.DataFrame(
        {
            **_USUAL,
            "source": "tf-official",
            "network": [plain.get(m, n.network) for m, n in zip(rows.model, names, strict=True)],
            "task": "training",
            "stack": "tensorflow",
            "framework": "tf1.1",
            "precision": "fp32",
            "gpu": ["P100-SXM2-16GB" if "P100" in entry else "K80" for entry in rows.platform],
            "batch_size": rows.batch_per_gpu,
            "input": [name.input or "3x224x224" for name in names],
            "step_seconds": rows.batch_per_gpu / rows.images_per_sec,
            "sigma": 0.02,
            "host": [
                "dgx1" if "DGX" in entry else "gce" if "Google" in entry else "ec2" for entry in rows.platform
            ],
            "licence": "Apache-2.0",
        }
    )


def frameworks(folder: Path) -> pd.DataFrame:
    """MXNet's official figures (Apache-2.0), and others' without a licence (for evaluation only)."""
    rows = pd.read_csv(find_source(folder, "throughput_frameworks_gpus.csv"))
    rate = pd.to_numeric(rows.throughput, errors="coerce")
    rows = rows[(rate > 0) & rows.batch.notna()].assign(step_seconds=rows.batch / rate)
    rows["task"] = rows.task.str.split("(").str[0]
    mxnet = rows[rows.source.str.contains("apache/mxnet") & rows.gpu.isin([*MXNET_GPUS, "K80"])]
    pascal = rows[rows.source.str.contains("u39kun") & rows.framework.str.startswith("PyTorch")]
    return pd.concat([_mxnet(mxnet), _u39kun(pascal)], ignore_index=True)


def _mxnet(rows: pd.DataFrame) -> pd.DataFrame:
    # The source has two tables of inference on V100, both marked fp32. The second is fp16: its ResNet-50 runs
    # at 2,340 images/s, twice what the chip can compute in fp32.
    again = rows.duplicated(["framework", "gpu", "model", "task", "batch"])
    names = [named("mxnet", name) for name in rows.model]
    return pd.DataFrame(
        {
            **_USUAL,
            "source": "mxnet",
            "network": [name.network for name in names],
            "task": rows.task,
            "stack": "mxnet",
            "framework": rows.framework.str.extract(r"MXNet (\S+)")[0],
            "precision": again.map({False: "fp32", True: "fp16"}),
            "gpu": rows.gpu.map({**MXNET_GPUS, "K80": "K80"}),
            "batch_size": rows.batch,
            "input": [name.input or "3x224x224" for name in names],
            "step_seconds": rows.step_seconds,
            "sigma": 0.03,
            "host": "mxnet/" + rows.gpu,
            "licence": "Apache-2.0",
        }
    )


def _u39kun(rows: pd.DataFrame) -> pd.DataFrame:
    return pd.DataFrame(
        {
            **_USUAL,
            "source": "u39kun",
            "network": rows.model,
            "task": rows.task,
            "framework": rows.framework.str.replace("PyTorch ", "pt").str.replace(".", ""),
            "precision": rows.precision,
            "gpu": rows.gpu,
            "batch_size": rows.batch,
            "input": "3x224x224",
            "step_seconds": rows.step_seconds,
            "sigma": 0.03,
            "host": "u39kun/" + rows.gpu,
            "licence": "none seen",
        }
    )


def torch7(folder: Path) -> pd.DataFrame:
    """Torch7 with cuDNN: forward, and forward with backward (jcjohnson MIT, dmikushin none)."""
    table = pd.read_csv(find_source(folder, "throughput_frameworks_gpus.csv"))
    mine = table[table.source.str.contains("jcjohnson") & (table.task != "")]
    mine = mine[mine.framework.str.contains("cuDNN 51") & mine.gpu.isin(TORCH7_GPUS)]
    old = pd.DataFrame(
        {
            "network": mine.model,
            "task": mine.task.str.split("(").str[0],
            "framework": mine.framework.str.extract(r"cuDNN (\d+)")[0],
            "gpu": mine.gpu.map(TORCH7_GPUS),
            "batch_size": mine.batch,
            "step_seconds": mine.batch / pd.to_numeric(mine.throughput, errors="coerce"),
            "host": "jcjohnson/" + mine.gpu,
            "licence": "MIT",
        }
    )
    rows = pd.read_csv(find_source(folder, "cnn_benchmarks_torch7.csv"))
    rows = rows[(rows.use_cudnn == 1) & rows.repo.str.startswith("dmikushin")]
    rows = rows[~rows.gpu_name.isin(["GeForce GTX 1080 Ti"])]  # copied from jcjohnson
    both = []
    for task, column in (("inference", "forward_median_s"), ("training", "total_median_s")):
        both.append(
            pd.DataFrame(
                {
                    "network": rows.model,
                    "task": task,
                    "framework": rows.cudnn_version.astype(str),
                    "gpu": rows.gpu_name.map(gpu_of),
                    "batch_size": rows.batch_size,
                    "step_seconds": rows[column],
                    "host": "dmikushin/" + rows.gpu_name,
                    "licence": "none seen",
                }
            )
        )
    rows = pd.concat([old, *both], ignore_index=True)
    rows["framework"] = "cudnn" + rows.framework
    names = [named("torch7", name) for name in rows.network]
    rows["network"] = [name.network for name in names]
    constant: dict[str, Any] = {
        "source": "torch7",
        "stack": "torch7",
        "memory_format": "contiguous",
        "precision": "fp32",
        "tf32": "none",
        "gpu_count": 1,
        "input": "3x224x224",
        "sigma": 0.02,
    }
    return rows.assign(**constant)


def neusight(folder: Path) -> pd.DataFrame:
    """Whole transformers, PyTorch 2.1, fp32 without TF32, attention from plain products (MIT)."""
    rows = pd.read_csv(find_source(folder, "neusight_measured_e2e_ms.csv"))
    # Their `fusion` is a compiler; dp, tp and pp use several GPUs.
    text = rows.case.str.extract(r"^(.+?)-(inf|train)-(\d+)-(\d+)(?:-(fusion|.+))?$")
    rows = rows.assign(model=text[0], phase=text[1], length=text[2], batch=text[3], option=text[4])
    rows = rows[rows.option.isna() | (rows.option == "fusion")]
    rows = rows[~rows.device.str.startswith("AMD") & (rows.e2e_latency > 0)]
    gpu = rows.device.str.replace("_", " ").map(gpu_of)
    return pd.DataFrame(
        {
            **_USUAL,
            "source": "neusight",
            "network": [named("neusight", name).network for name in rows.model],
            "task": rows.phase.map({"inf": "inference", "train": "training"}),
            "stack": ["compile" if entry == "fusion" else "eager" for entry in rows.option],
            "framework": "pt21",
            "variant": "attention=eager",
            "precision": "fp32",
            "gpu": gpu,
            "batch_size": rows.batch.astype(int),
            "input": "seq:" + rows.length,
            "step_seconds": rows.e2e_latency / 1000,
            "sigma": 0.02,
            "host": "neusight/" + gpu,
            "licence": "MIT",
        }
    )


def mlperf_inference(folder: Path) -> pd.DataFrame:
    """Offline, closed, the best submission per GPU and round (Apache-2.0; none seen for v5.1).

    TensorRT, INT8 or less; the batch is not stated, so `MLPERF_BATCH` stands for a large one."""
    best = _best_submissions(folder)
    names = [named("mlperf-inference", name) for name in best["name"]]
    factor = pd.Series([name.batch_factor for name in names])
    steps = pd.Series([name.steps for name in names])
    batch = pd.Series([MLPERF_BATCH if name.network == "resnet50" else 32 for name in names])
    return pd.DataFrame(
        {
            **_USUAL,
            "source": best.source,
            "network": [name.network for name in names],
            "task": "inference",
            "stack": "tensorrt",
            "framework": best.source.str.removeprefix("mlperf-inference-"),
            "precision": [("fp16" if name.network == "sdxl" else "int8") for name in names],
            "gpu": best.gpu,
            "batch_size": batch * factor,
            "input": [name.input for name in names],
            "step_seconds": batch / best.rate / steps,
            "sigma": 0.1,
            "host": best.source + "/" + best.gpu,
            "licence": best.source.str.endswith("v5.1").map({True: "none seen", False: "Apache-2.0"}),
        }
    )


def _best_submissions(folder: Path) -> pd.DataFrame:
    """MLPerf's best rate per GPU by round (`source`), network (`name`) and `gpu`."""
    old = pd.read_csv(find_source(folder, "mlperf_inference_closed.csv"))
    old = old[(old.scenario == "offline") & (old.n_acc > 0)]
    old = old[old.accelerator.fillna("").str.contains("NVIDIA|Tesla|GeForce")]
    first = pd.DataFrame(
        {
            "source": "mlperf-inference-" + old.version,
            "name": old.benchmark,
            "gpu": old.accelerator,
            "rate": old.samples_per_second / old.n_acc,
        }
    )
    new = pd.read_csv(find_source(folder, "mlperf_inference.csv"))
    second = pd.DataFrame(
        {
            "source": new.source,
            "name": new.network,
            "gpu": new.gpu,
            "rate": new.samples_per_second / new.gpu_count,
        }
    )
    rows = pd.concat([first, second], ignore_index=True)
    # Fractions of a GPU, and boards whose GPU shares the host's memory.
    rows = rows[~rows.gpu.str.contains(r"MIG|80C|24Q|16Q|Virtualized|\b1g\.|Xavier|Orin", regex=True)]
    rows = rows[rows["name"].map(lambda name: named("mlperf-inference", name).input != "")]
    rows["gpu"] = rows.gpu.map(gpu_of)
    return rows.groupby(["source", "name", "gpu"], as_index=False).agg({"rate": "max"})


def lambda_ngc(folder: Path) -> pd.DataFrame:
    """NVIDIA's containers on 35 GPUs, training (no licence: for evaluation only)."""
    rows = pd.read_csv(find_source(folder, "lambda_pytorch_ngc_runs.csv"))
    rows = rows[(rows.n_gpu == 1) & (rows.throughput > 0) & rows.gpu.notna()]
    rows["batch_per_gpu"] = pd.to_numeric(rows.batch_per_gpu, errors="coerce")
    # Tokens and items per sample are not stated, nor are the batches of SSD and Mask R-CNN.
    rows = rows[rows.unit.isin(["images/s", "sequences/s"]) & rows.batch_per_gpu.notna()]
    cell = ["gpu", "container", "model", "precision", "batch_per_gpu"]
    memory = rows.groupby(cell).peak_gpu_mem_mib.median().reset_index()
    flat = rows.groupby(cell).throughput.median().reset_index()
    names = [named("lambda-ngc", name) for name in flat.model]
    return pd.DataFrame(
        {
            "source": "lambda-ngc",
            "network": [name.network for name in names],
            "task": "training",
            "stack": "ngc",
            "framework": flat.container,
            "memory_format": "channels_last",
            "precision": flat.precision.map({"FP32": "fp32", "FP16": "amp", "AMP": "amp"}),
            "tf32": "all",
            "gpu": flat.gpu.map(gpu_of),
            "gpu_count": 1,
            "batch_size": flat.batch_per_gpu,
            "input": [name.input for name in names],
            "step_seconds": flat.batch_per_gpu / flat.throughput,
            "sigma": 0.03,
            "peak_memory_mib": memory.peak_gpu_mem_mib,
            "host": "lambda-ngc/" + flat.gpu,
            "licence": "none seen",
        }
    )


BULK = (
    timm,
    torchvision,
    gavel,
    profet,
    lambda_tf,
    tf_official,
    frameworks,
    torch7,
    neusight,
    mlperf_inference,
    lambda_ngc,
)
