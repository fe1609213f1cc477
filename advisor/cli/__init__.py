"""The commands of `advisor`. Thousands of small records and hardly a cycle: garbage is collected rarely.

Set before anything is imported, which else takes a hundred looks."""

import gc

gc.set_threshold(100_000)
