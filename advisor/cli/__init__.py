"""Commands. One makes thousands of small records and hardly a cycle: garbage is looked for rarely.

Set before anything is imported, which else takes a hundred looks."""

import gc

gc.set_threshold(100_000)
