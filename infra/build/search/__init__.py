"""Finding the cheapest configuration in few trials, from tables of other workloads.

Knows configurations and costs, no networks: see `docs/internals/search.md`."""

from advisor.infra.build.search.engine import Problem, Proposal, propose
from advisor.infra.build.search.tables import Replay, Run, Step, Table, replay

__all__ = ["Problem", "Proposal", "Replay", "Run", "Step", "Table", "propose", "replay"]
