"""Limits a process to vCPUs, memory and a disk rate; the only code of the project that writes cgroups.

Standard library only: the worker reads its usage through `advisor.sweeps.trial.limits.usage`."""
