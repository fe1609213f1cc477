"""Measures all networks on one machine without Ray or a database: docs/how-to/measuring.md.

Needs the standard library, NumPy, Pillow, torch and torchvision: `python -m advisor.infra.build.campaign
gpu`."""
