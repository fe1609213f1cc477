"""Measures facts and rates of a machine in under a minute.

The measuring program, `python -m advisor.sweeps.probe`, runs as a separate process. It needs only the
standard library and NumPy, so that it runs on a bare machine; some parts also need Pillow or torch, and are
skipped without them."""
