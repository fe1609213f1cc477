"""Searches for the cheapest configuration in few trials, using tables of other workloads.

Works on configurations and costs, and knows nothing of networks: see `docs/internals/search.md`."""

from advisor.infra.build.search.engine import Problem, Proposal, propose
from advisor.infra.build.search.tables import Replay, Run, Step, Table, replay

__all__ = ["Problem", "Proposal", "Replay", "Run", "Step", "Table", "propose", "replay"]
