"""Facts and rates of a machine, measured in under a minute.

`python -m advisor.sweeps.probe` is the program that looks and measures. It is started as a process and needs
the standard library and NumPy; Pillow and torch add what they are needed for, so that it runs on a bare GPU
machine as well as on one that has neither."""

from __future__ import annotations

from advisor.sweeps.probe.session import PARTS, SCHEMA, fingerprint

__all__ = ["PARTS", "SCHEMA", "fingerprint"]
