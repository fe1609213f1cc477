"""One door to every network: of the zoo, or of the user's own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from msgspec import Struct

from advisor.domain.workload import is_own
from advisor.models.zoo import batches, building, steps
from advisor.models.zoo.networks import NetworkInfo, is_read_as_photographs, network_info
from advisor.models.zoo.own import load_own

if TYPE_CHECKING:
    import torch


class Runnable(Protocol):
    """A network that can be built and run; batches are tensors, or containers of tensors."""

    @property
    def info(self) -> NetworkInfo:
        """The facts of the network."""

    @property
    def fingerprint(self) -> str:
        """12 hex digits of an own network's file; empty for one of the zoo."""

    @property
    def makes_batches(self) -> bool:
        """Whether its batches are made in memory, and not read as photographs."""

    def build(self) -> torch.nn.Module:
        """A new network on the CPU."""

    def synthetic_batch(self, batch_size: int, device: str | torch.device = "cpu") -> tuple[Any, Any]:
        """Inputs and targets on the device."""

    def synthetic_targets(self, inputs: Any) -> Any:
        """Targets that fit the inputs, on their device."""

    def forward(self, network: torch.nn.Module, inputs: Any) -> Any:
        """The network's outputs for the inputs."""

    def training_loss(self, network: torch.nn.Module, inputs: Any, targets: Any) -> torch.Tensor:
        """The scalar to send back through the network, with its forward pass."""


class BuiltIn(Struct, frozen=True):
    """A network of the zoo: its functions with its name filled in."""

    info: NetworkInfo
    fingerprint: str = ""

    @property
    def makes_batches(self) -> bool:
        """Words and decoded thumbnails cost nothing to load: no photographs stand for them."""
        return not is_read_as_photographs(self.info)

    def build(self) -> torch.nn.Module:
        """See `advisor.models.zoo.build`."""
        return building.build(self.info.name)

    def synthetic_batch(
        self, batch_size: int, device: str | torch.device = "cpu"
    ) -> tuple[torch.Tensor, Any]:
        """See `advisor.models.zoo.synthetic_batch`."""
        return batches.synthetic_batch(self.info.name, batch_size, device)

    def synthetic_targets(self, inputs: torch.Tensor) -> Any:
        """See `advisor.models.zoo.synthetic_targets`."""
        return batches.synthetic_targets(self.info.name, inputs)

    def forward(self, network: torch.nn.Module, inputs: torch.Tensor) -> Any:
        """See `advisor.models.zoo.forward`."""
        return steps.forward(self.info.name, network, inputs)

    def training_loss(self, network: torch.nn.Module, inputs: torch.Tensor, targets: Any) -> torch.Tensor:
        """See `advisor.models.zoo.training_loss`."""
        return steps.training_loss(self.info.name, network, inputs, targets)


def open_network(reference: str) -> Runnable:
    """The network of the zoo with that name, or the own one of `path/to/file.py:build`.

    Raises `UsageError` for an unknown name, and for a file that cannot be used.
    """
    return load_own(reference) if is_own(reference) else BuiltIn(network_info(reference))
