"""Tuning language models on one instance: which one does it for the least money."""
