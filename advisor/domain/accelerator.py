"""The accelerator of a trial: one record, with one written form."""

from __future__ import annotations

from msgspec import Struct

from advisor.domain.words import AcceleratorKind


class Accelerator(Struct, frozen=True, kw_only=True):
    """A GPU, an emulated one, or the CPU.

    `gpu` is the name of a catalogue or a driver; empty for whichever GPU the machine has. What
    follows it is known once the device was seen: MiB of its memory, its streaming multiprocessors,
    the profile of a MIG slice (`1g.5gb`) or a vGPU (`16Q`; empty for a whole card), the compute
    capability (`8.0`).
    """

    kind: AcceleratorKind
    gpu: str = ""
    memory_mib: float | None = None
    sm_count: int | None = None
    slice_profile: str = ""
    compute_capability: str = ""

    def __post_init__(self) -> None:
        if self.kind is AcceleratorKind.EMULATED and not self.gpu:
            raise ValueError("an emulated GPU has a name")
        if self.kind is AcceleratorKind.CPU and self.gpu:
            raise ValueError("the CPU has no name of a GPU")

    def __str__(self) -> str:
        """`cuda`, `cuda:T4`, `emulated:T4` or `cpu`: as commands, documents, stores and the ids of
        trials have it."""
        return f"{self.kind}:{self.gpu}" if self.gpu else self.kind.value

    @classmethod
    def parse(cls, text: str) -> Accelerator:
        """The accelerator that `str` wrote; `ValueError` for any other text."""
        kind, colon, gpu = text.partition(":")
        if kind not in set(AcceleratorKind) or (colon and not gpu):
            raise ValueError(f"no accelerator '{text}'")
        return cls(kind=AcceleratorKind(kind), gpu=gpu)

    @property
    def is_gpu(self) -> bool:
        """Whether a real GPU computes."""
        return self.kind is AcceleratorKind.CUDA

    @property
    def is_slice(self) -> bool:
        """Whether it is a part of a card, which says nothing about the card."""
        return bool(self.slice_profile)

    @property
    def is_emulated(self) -> bool:
        """Whether the known pace of a GPU stands for it."""
        return self.kind is AcceleratorKind.EMULATED

    @property
    def is_cpu(self) -> bool:
        """Whether the CPU computes."""
        return self.kind is AcceleratorKind.CPU


ON_CPU = Accelerator(kind=AcceleratorKind.CPU)
ON_ANY_GPU = Accelerator(kind=AcceleratorKind.CUDA)  # whichever the machine has
