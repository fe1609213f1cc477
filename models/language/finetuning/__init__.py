"""Tuning language models on the GPUs of one host: memory, and tokens a second with bounds."""
