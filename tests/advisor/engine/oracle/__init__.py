"""An answer worked out the long way, by code that knows nothing of `advisor.engine`."""
