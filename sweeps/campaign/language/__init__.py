"""Language models of known shapes and random weights, measured on one machine: docs/measuring.md.

By vLLM's server under closed loops where it is installed, else by plain transformers in batches.
"""
