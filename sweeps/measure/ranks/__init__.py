"""Measures how one training scales over several processes (ranks) on one node or more.

`advisor measure --ranks` starts this package as a program on each node; see `measure.ranks.measuring`."""
