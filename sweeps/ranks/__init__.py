"""One training by several processes (ranks), on one node or more: how it scales, measured.

`advisor measure --ranks` starts `python -m advisor.sweeps.ranks.torchrun .. -m advisor.sweeps.ranks
JOB` on each node; see `advisor.sweeps.ranks.measuring`.
"""
