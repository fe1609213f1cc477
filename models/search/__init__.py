"""Finding the cheapest configuration in few trials, from tables of other workloads.

Knows configurations and costs, no networks: see `docs/internals/search.md`.
"""

from models.search.engine import Problem, Proposal, propose
from models.search.replay import Replay, Step, replay
from models.search.tables import Run, Table

__all__ = ["Problem", "Proposal", "Replay", "Run", "Step", "Table", "propose", "replay"]
