"""Watches sweeps: their progress, log, metrics, and their state in the shared store."""
