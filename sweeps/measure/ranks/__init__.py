"""One training by several processes (ranks), on one node or more: how it scales, measured.

`advisor measure --ranks` starts `measure.ranks.torchrun`, and that `measure.ranks JOB`, on each node; see
`advisor.sweeps.measure.ranks.measuring`."""
