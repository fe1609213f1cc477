"""Measures language models of known shapes with random weights on one machine: docs/how-to/measuring.md.

Uses vLLM's server under closed loops if vLLM is installed, else plain transformers in batches."""
