"""Fits the files that ship: step times of GPUs and CPUs, scaling, serving, tuning. Not in the wheel."""
