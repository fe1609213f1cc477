"""The service: the same answers over HTTP, and a page. Only `advisor serve` imports it.

As in `advisor.cli`, garbage is looked for rarely: set before anything is imported. So is that
nothing else that is installed here plugs itself into the validation of what clients send.
"""

import gc
import os

gc.set_threshold(100_000)
os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")
