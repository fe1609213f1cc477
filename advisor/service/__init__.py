"""The service: the same answers over HTTP, and a page. Only `advisor serve` imports it.

As in `advisor.cli`, garbage is looked for rarely: set before anything is imported.
"""

import gc

gc.set_threshold(100_000)
