"""What the engine needs of a serving predictor."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from advisor.engine.model import Booleans, Floats, Integers
    from advisor.messages import Message
    from advisor.models.bayes import Bounds
    from advisor.models.language.deployments import Deployment, Traffic


class Served(Protocol):
    """What n replicas do under a load, columns (n,); nan where a load is beyond their capacity.

    `ttft_seconds` are means of the time to the first token, `tpot_seconds` those per output token
    without the first; output tokens are of one replica. `in_flight` are sequences at once, on
    average; `binds` what holds a step back, as places in `advisor.models.language.serving.BINDS`;
    `calibrated` says whether held-out rows back the bounds.
    """

    @property
    def ttft_seconds(self) -> Bounds: ...
    @property
    def tpot_seconds(self) -> Bounds: ...
    @property
    def output_tokens_per_second(self) -> Bounds: ...
    @property
    def in_flight(self) -> Floats: ...
    @property
    def binds(self) -> Integers: ...
    @property
    def calibrated(self) -> Booleans: ...


class ServingModel(Protocol):
    """A predictor of replicas."""

    def closed_loop(
        self, deployments: Sequence[Deployment], traffic: Traffic, concurrency: Floats, confidence: float
    ) -> Served:
        """Each deployment with so many sequences in flight at all times, (n,)."""

    def under_load(
        self,
        deployments: Sequence[Deployment],
        traffic: Traffic,
        requests_per_second: Floats,
        confidence: float,
    ) -> Served:
        """Each deployment where requests arrive by themselves (Poisson), (n,)."""

    def engine_version(self, engine: str) -> str:
        """The version of an engine that the answer is about."""

    def unmeasured(self, deployment: Deployment) -> tuple[Message, ...]:
        """What of a deployment nobody measured, in words."""
