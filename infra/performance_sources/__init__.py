"""Step times that others measured and published, and the data sheets of their GPUs.

`published.csv` and `gpus.csv` are what the bundled performance model's accelerator part is
fitted on; SOURCES.md names every source and its licence. `compact` makes published.csv.
"""
