"""The commands of `advisor`. They create thousands of records but few reference cycles: collect rarely.

This is set before other imports, which would otherwise trigger about a hundred collections."""

import gc

gc.set_threshold(100_000)
