"""Finding the cheapest configuration in few trials, from tables of other workloads.

Knows configurations and costs, no networks: see `docs/internals/search.md`.
"""

from advisor.models.search.engine import Problem, Proposal, propose
from advisor.models.search.replay import Replay, Step, replay
from advisor.models.search.tables import Run, Table

__all__ = ["Problem", "Proposal", "Replay", "Run", "Step", "Table", "propose", "replay"]
