"""Translates the sources' names of networks, GPUs, stacks and precisions into those of the fit."""

from __future__ import annotations

import csv
import re
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

from msgspec import Struct


def find_source(directory: Path, name: str) -> Path:
    """The file of that name below the folder; `FileNotFoundError` says which source has it."""
    result = sorted(directory.rglob(name))
    if not result:
        raise FileNotFoundError(f"{name} is not below {directory}; SOURCES.md says where it is from")
    return result[0]


NAMES_PATH = Path(__file__).with_name("network_names.csv")


class Named(Struct, frozen=True):
    """A network of the table, and the size of a source's sample in its samples.

    One sample of the source is `batch_factor` samples of the network (guidance runs a diffusion network twice
    per image), `steps` times in sequence. `input` is '' if unknown."""

    network: str
    input: str
    batch_factor: float = 1.0
    steps: float = 1.0


def named(source: str, name: str, input_text: str = "", task: str = "") -> Named:
    """The network of a source's name: from the explicit table, else by the source's rules."""
    stated = table_input(_stated_input(source, name, input_text, task))
    plain = name.partition(".")[0] if source == "timm" else name
    rows = [row for row in _written_out().get(plain, ()) if source.startswith(row["source"])]
    if not rows:
        return Named(_by_rule(source, name), stated)
    row = next((row for row in rows if stated and row["input"] == stated), rows[0])
    own = stated if stated and not _scaled(row) else row["input"]
    return Named(row["network"], own or row["input"], float(row["batch_factor"]), float(row["steps"]))


def batch_of(source: str, name: str, task: str, stated: float) -> float:
    """Samples per GPU; mmdetection's SSDs are trained on 8 images, which the table's head does not say."""
    is_ssd = source == "mmdetection-v1" and name.startswith("SSD")
    return 8.0 if is_ssd and task == "training" else stated


def _stated_input(source: str, name: str, text: str, task: str) -> str:
    """The input as far as it is known beyond the source's text; otherwise that text."""
    if text.isdigit():
        return f"seq {text}"
    if name == "maskformer-swin-base":
        return "640x864"  # its processor's output for a 640x480 photograph
    if source == "mmdetection-v2" and re.search(r" (320|416|608)$", name):
        return f"{name[-3:]}px"
    if source == "mmdetection-v1" and re.search(r" Size=(300|512)$", name):
        return f"{name[-3:]}px"
    if source.startswith("mmseg") and text.startswith("Cityscapes") and task == "inference":
        return "1024x2048"  # the whole image; only training uses the crop
    return text


def _scaled(row: Mapping[str, str]) -> bool:
    """True if the input is a latent, which is smaller than the image that the source states."""
    return row["input"].startswith("4x")


def gpu_of(text: str) -> str:
    """The source's GPU name without question marks and maker's names."""
    bare = re.sub(r"^Blackwell GPU \((.*)\)$", r"\1", text.strip())
    bare = re.sub(r"^(?:nvidia|tesla)\s+", "", bare, flags=re.IGNORECASE)
    bare = re.sub(r"^(?:tesla)\s+", "", bare, flags=re.IGNORECASE)
    return re.sub(r"\s+(?:CTS|\(Ada Lovelace\))$", "", bare).rstrip("?").strip()


_STACKS = {"eager": "eager", "compile": "compile", "torchscript": "torchscript"}


def stack_of(eager: str, framework: str) -> str:
    """The stack of the fit for the scorer's columns `eager` and `framework`."""
    if framework.startswith("mxnet"):
        return "mxnet"
    if eager in _STACKS:
        return _STACKS[eager]
    if eager.startswith("eager (NVIDIA") or eager.startswith("eager (tuned"):
        return "ngc"
    if eager.startswith("eager"):
        return "eager"
    for word, stack in (
        ("tensorrt", "tensorrt"),
        ("paddle", "paddle"),
        ("mxnet", "mxnet"),
        ("tensorflow", "tensorflow"),
        ("fastertransformer", "fastertransformer"),
        ("pytorch", "ngc-fused"),
        ("nemo", "ngc-fused"),
    ):
        if word in framework:
            return "paddle" if "paddle" in framework else stack
    return framework or "unknown"


def precision_of(text: str) -> str:
    """`tf32` becomes fp32 with the column `tf32` set; `amp? (not said)` is amp, for evaluation only."""
    first = text.lower().split("/")[0].split(" ")[0].rstrip("?")
    return "fp32" if first == "tf32" else first


@cache
def _written_out() -> Mapping[str, Sequence[Mapping[str, str]]]:
    rows: dict[str, list[Mapping[str, str]]] = {}
    with NAMES_PATH.open(newline="") as file:
        for row in csv.DictReader(file):
            rows.setdefault(row["name"], []).append(row)
    return rows


def _by_rule(source: str, name: str) -> str:
    if source.startswith("timm"):
        return _timm(name)
    if source.startswith("pycls"):
        return _replaced(name, _PYCLS)
    if source.startswith(("mmdet", "mmseg", "detectron2")):
        return re.sub(r"[^a-z0-9+]+", "-", name.lower()).strip("-")
    return _plain(name)


def _plain(name: str) -> str:
    """Lower case without text in brackets: `RTMDet (tiny)` -> `rtmdet`."""
    bare = re.sub(r"\s*[(\[].*$", "", name.strip()).lower()
    bare = re.sub(r"^resnet-(\d+)$", r"resnet\1", bare)
    return re.sub(r"\s+", "-", bare)


# timm's names that torchvision has too: without a prefix, the table means torchvision's.
IN_BOTH = frozenset(
    (
        *(f"densenet{layers}" for layers in (121, 161, 169, 201)),
        *(f"efficientnet_b{size}" for size in range(8)),
        *(f"resnet{layers}" for layers in (18, 34, 50, 101, 152)),
        *(f"convnext_{size}" for size in ("tiny", "small", "base", "large")),
        *(f"vgg{layers}{norm}" for layers in (11, 13, 16, 19) for norm in ("", "_bn")),
        *("inception_v3", "resnext50_32x4d", "resnext101_32x8d", "resnext101_64x4d"),
        *("wide_resnet50_2", "wide_resnet101_2"),
    )
)


def _timm(name: str) -> str:
    bare = name.partition(".")[0]
    return f"timm/{bare}" if bare in IN_BOTH else bare


def _replaced(name: str, rules: Sequence[tuple[str, str]]) -> str:
    """Apply the first rule whose pattern matches the whole name; digits of `x0_75` become `075`."""
    for pattern, network in rules:
        if match := re.fullmatch(pattern, name):
            made = _sized(network, match) if "{" in network else match.expand(network)
            return made.lower()
    return _plain(name)


def _sized(network: str, results: re.Match[str]) -> str:
    """`{100}`: a factor as timm writes it (`0_75` -> `075`); `{gf}`: RegNet's tenths of a GFLOP."""
    text = results.groups()[-1]
    if "{gf}" in network:
        number = float(text[:-2])
        tenths = number * 10 if text.endswith("GF") else number / 100
        return results.expand(network.replace("{gf}", f"{round(tenths):03d}"))
    return results.expand(network.replace("{100}", f"{round(float(text.replace('_', '.')) * 100):03d}"))


_PYCLS = (
    (r"EfficientNet-B(\d)", r"efficientnet_b\1"),
    (r"RegNet(?:X)-(.*)", r"regnetx_{gf}"),
    (r"RegNet(?:Y)-(.*)", r"regnety_{gf}"),
    (r"ResNet-(\d+)", r"resnet\1"),
)

_LATENT = re.compile(r"latent\s*(\d+)\s*x\s*(\d+)")
_SEQUENCE = re.compile(r"^seq[ :]*(\d+)")
_CROP = re.compile(r"crop\s*(\d+)\s*x\s*(\d+)")
_SIDES = re.compile(r"^\(?(\d+)\s*[x,]\s*(\d+)\)?")
_SIDE = re.compile(r"^(\d+)\s*px")
_TABLE = re.compile(r"^\d+x\d+x\d+(?= |$)")


def table_input(text: str) -> str:
    """The input in the network table's form, or '' if the text has none.

    Understands `224px`, `800x1066px`, `1333x800 (scale jitter)` (the shorter side is the height), `seq 128`,
    `512px latent 64x64`, `Cityscapes; crop 512x1024`, and the table's form."""
    size = text.strip()
    if match := _TABLE.match(size):
        return match[0]
    if match := _SEQUENCE.match(size):
        return f"seq:{match[1]}"
    if match := _LATENT.search(size):
        return f"4x{match[1]}x{match[2]}"
    if match := _CROP.search(size) or _SIDES.match(size):
        height, width = sorted((int(match[1]), int(match[2])))
        return f"3x{height}x{width}"
    if match := _SIDE.match(size):
        return f"3x{match[1]}x{match[1]}"
    return ""


TASKS = {"train": "training", "training": "training", "inference": "inference"}
LAMBDA_NETWORKS = {"inception3": "inception_v3"} | {
    name: name for name in ("alexnet", "resnet50", "resnet152", "vgg16")
}
MXNET_GPUS = {"M40": "M40", "M60": "M60", "P100": "P100-SXM2-16GB", "V100": "V100-SXM2-16GB"}
MLPERF_BATCH = 128
TORCH7_GPUS = {
    "GeForce GTX 1080": "GTX 1080",
    "TITAN X": "TITAN X (Pascal)",
    "GeForce GTX TITAN X": "TITAN X (Maxwell)",
    "GeForce GTX 1080 Ti": "GTX 1080 Ti",
}
