"""Places a trial on its node: CPUs, GPU and NUMA node that no other trial has."""
