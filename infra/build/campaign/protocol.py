"""The GPU-hour's cells and their order. Pure functions.

12 minutes of marks (`marks.py`), 35 of networks, 10 of a second run of a tenth of the networks."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct
from msgspec.structs import replace

from advisor.domain import Accelerator, DatasetProfile, Gpu, Precision, Resources, Task, Trial, Workload
from advisor.domain.words import Protocol
from advisor.models.performance.memory.peak import largest_batch
from advisor.models.performance.memory.steps import Conditions, bundled_profile
from advisor.models.performance.networks import bundled_networks
from advisor.sweeps.planning.plan import CPU_CLOCK, SYNTHETIC

# Library, name and input of each network, as in the network table.
NETWORKS = (
    "torchvision/resnet18@3x224x224",
    "torchvision/resnet50@3x224x224",
    "torchvision/vgg16@3x224x224",
    "torchvision/densenet121@3x224x224",
    "torchvision/mobilenet_v2@3x224x224",
    "torchvision/mobilenet_v3_large@3x224x224",
    "torchvision/efficientnet_b0@3x224x224",
    "torchvision/efficientnet_b4@3x380x380",
    "timm/regnety_016@3x224x224",
    "torchvision/convnext_tiny@3x224x224",
    "timm/deit_small_patch16_224@3x224x224",
    "torchvision/vit_b_16@3x224x224",
    "torchvision/swin_t@3x224x224",
    "transformers/bert-base-uncased@seq:128",
    "transformers/bert-base-uncased@seq:512",
    "transformers/bert-large-uncased@seq:384",
    "transformers/gpt2@seq:1024",
    "transformers/t5-small@seq:512",
    "transformers/whisper-base@80x3000",
    "diffusers/stable-diffusion-1.5@4x64x64",
    "torchvision/deeplabv3_resnet50@3x513x513",
    "transformers/segformer-b0-finetuned-ade-512-512@3x512x512",
    "torchvision/maskrcnn_resnet50_fpn@3x800x800",
    "advisor/lstm_ptb_large@seq:35",
    "advisor/dlrm@13+26",
)
# DLRM's tables are 17 GB.
NETWORKS_OF_A_CPU = NETWORKS[:-1]
LARGEST = "largest"
_AGAIN_EVERY = 10
_LARGEST_BATCH = 1024


class Plan(Struct, frozen=True, kw_only=True):
    """What is measured, and how long each part takes; `has_largest` adds the largest batch that fits."""

    settings: tuple[tuple[Task, Precision], ...]
    batches: tuple[int, ...]
    has_largest: bool
    seconds: float
    mark_seconds: float
    load_seconds: float
    is_short: bool = False


GPU_HOUR = Plan(
    settings=(
        (Task.INFERENCE, Precision.AMP),
        (Task.INFERENCE, Precision.FP32),
        (Task.TRAINING, Precision.AMP),
    ),
    batches=(1, 32),
    has_largest=True,
    seconds=8.0,
    mark_seconds=3.0,
    load_seconds=120.0,
)
_FP32 = ((Task.INFERENCE, Precision.FP32), (Task.TRAINING, Precision.FP32))
ON_CPU_PLAN = Plan(
    settings=_FP32, batches=(1, 8, 32), has_largest=False, seconds=0.6, mark_seconds=0.3, load_seconds=1.0
)
SHORT = Plan(
    settings=_FP32,
    batches=(1, 2),
    has_largest=False,
    seconds=0.05,
    mark_seconds=0.01,
    load_seconds=0.1,
    is_short=True,
)


class Cell(Struct, frozen=True, kw_only=True):
    """A network in a task and precision at a batch size, or at the largest that fits; `again` repeats it in a
    second process, to see how much runs differ."""

    network: str
    task: Task
    precision: Precision
    batch: str
    again: bool = False

    @property
    def key(self) -> str:
        """An identifier that is the same for the same cell in every run."""
        words = (self.network, self.task, self.precision, self.batch, *(["again"] if self.again else []))
        return "/".join(words)


def cells(networks: tuple[str, ...], plan: Plan) -> Iterator[Cell]:
    """Every cell once, network by network, and then a tenth of them again."""
    sizes = [*map(str, plan.batches), *([LARGEST] if plan.has_largest else [])]
    once = [
        Cell(network=network, task=task, precision=precision, batch=size)
        for network in networks
        for task, precision in plan.settings
        for size in sizes
    ]
    yield from once
    for cell in once[::_AGAIN_EVERY]:
        yield replace(cell, again=True)


class Machine(Struct, frozen=True, kw_only=True):
    """What all rows share. `gpu` is the device's name, None on a CPU; `sheet` is the catalogue's data sheet,
    None for a GPU that is not in it."""

    accelerator: Accelerator
    resources: Resources
    gpu: str | None
    sheet: Gpu | None = None


def batch_of(cell: Cell, machine: Machine) -> int:
    """The cell's batch size; for the largest, the greatest power of two that is predicted to fit reliably."""
    if cell.batch != LARGEST:
        return int(cell.batch)
    name, _, size = cell.network.partition("@")
    most = _LARGEST_BATCH
    if machine.sheet is not None:
        conditions = Conditions(task=cell.task, batch_size=1, precision=cell.precision)
        held = largest_batch(bundled_profile(name, size), conditions, machine.sheet.memory_mib)
        most = min(most, held or 1)
    return 1 << (most.bit_length() - 1)


def trial_of(cell: Cell, batch_size: int, machine: Machine, plan: Plan) -> Trial:
    """The cell as a trial: bare steps of a network on a batch that is made on the device."""
    name, _, size = cell.network.partition("@")
    sides = [int(side) for side in size.split("x")] if size.count("x") == 2 else [1, 1, 1]
    plan_of = {"input": SYNTHETIC, "gpu": machine.gpu, "measure_seconds": plan.seconds, "cell": cell.key}
    if machine.gpu is None and machine.resources.vcpus == 1:
        plan_of["clock"] = CPU_CLOCK
    return Trial(
        workload=Workload(
            network=name,
            input=size,
            task=cell.task,
            batch_size=batch_size,
            precision=cell.precision,
            protocol=Protocol.BENCH,
            dataset=DatasetProfile(
                name=SYNTHETIC,
                samples=1,
                bytes_per_sample=float(bundled_networks().find(name, size).input_bytes),
                storage_format=SYNTHETIC,
                width=sides[2],
                height=sides[1],
            ),
        ),
        resources=machine.resources,
        accelerator=machine.accelerator,
        plan=plan_of,
    )
