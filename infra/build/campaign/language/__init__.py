"""Language models of known shapes, random weights, on one machine: docs/how-to/measuring.md.

By vLLM's server under closed loops where it is installed, else by plain transformers in batches."""
