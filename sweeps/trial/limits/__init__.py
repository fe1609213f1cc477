"""Holding a process to vCPUs, memory and a disk rate; the only cgroup code of the project.

Standard library only: the worker reads its own usage through `advisor.sweeps.trial.limits.usage`."""
