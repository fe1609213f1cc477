"""Rates of whole networks on a GPU that was never measured, from its data sheet.

For networks that other GPUs were measured on. `models.performance.accelerator` knows a network's
operations and so answers for networks never measured; here a network is its rates on other GPUs,
and nothing need be known of its operations. Fitting and predicting need NumPy only.
"""
