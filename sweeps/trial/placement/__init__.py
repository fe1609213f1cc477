"""Where on its node a trial runs: CPUs, GPU and NUMA node that no other trial has."""
