"""Whether two JSON-ready documents say the same.

The last bit or two of a number depend on how many others it was computed beside: vector units and
libm round differently. Anything more is a difference.
"""

import math

_LAST_BITS = 1e-12


def alike(one, other):
    if isinstance(one, float) and isinstance(other, float):
        return math.isclose(one, other, rel_tol=_LAST_BITS)
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(alike(one[key], other[key]) for key in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(alike, one, other))
    return one == other
