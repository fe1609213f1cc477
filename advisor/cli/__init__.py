"""The commands of `advisor`. They create many records but few cycles, so garbage is collected rarely.

This is set before other imports, which would otherwise trigger about a hundred collections."""

import gc

gc.set_threshold(100_000)
