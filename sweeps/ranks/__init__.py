"""One training by several processes (ranks), on one node or more: how it scales, measured.

`advisor measure --ranks` starts `python -m torch.distributed.run .. -m sweeps.ranks JOB` on each
node; see `sweeps.ranks.measuring`.
"""
