"""One training by several processes (ranks), on one node or more: how it scales, measured.

`advisor measure --ranks` starts this package as a program on each node; see `measure.ranks.measuring`."""
