"""What a network is called by: nothing is imported to tell."""

from __future__ import annotations


def is_own(reference: str) -> bool:
    """Whether this names a file (`net.py:build`, `net.py`) and not a network of the zoo."""
    return reference.endswith(".py") or ".py:" in reference
