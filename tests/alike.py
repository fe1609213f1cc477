"""Whether two documents or texts are the same but for the last digits, which move from CPU to CPU."""

import json
import math
import os
import re
from itertools import zip_longest

import pytest

_RELATIVE = 1e-6
_NUMBER = re.compile(r"(\d+(?:\.\d+)?(?:[eE][-+]?\d+)?)")


def alike(one, other):
    """Whether two JSON-ready documents are the same; texts are compared as `alike_text` does."""
    return next(_differences(one, other, ""), None) is None


def alike_text(one, other):
    """Whether two texts are the same, token by token: numbers to 1e-6, or to the last of three digits."""
    if one == other:
        return True
    ours, theirs = _NUMBER.split(one), _NUMBER.split(other)
    return (
        len(ours) == len(theirs)
        and ours[::2] == theirs[::2]
        and all(map(_close_as_printed, ours[1::2], theirs[1::2]))
    )


def _close_as_printed(one, other):
    """Three printed digits may round to either side: 94.75 is 94.7 on one CPU and 94.8 on another."""
    if _close(float(one), float(other)):
        return True
    decimals = len(one.partition(".")[2])
    digits = len(one.replace(".", "").lstrip("0"))
    same_form = "e" not in (one + other).lower() and decimals == len(other.partition(".")[2])
    return same_form and digits >= 3 and abs(float(one) - float(other)) < 1.5 * 10**-decimals


def _close(one, other):
    return math.isclose(one, other, rel_tol=_RELATIVE)


def assert_golden_text(path, text):
    """A text is the golden file's; ADVISOR_WRITE_GOLDEN=1 writes that anew, for review."""
    if os.environ.get("ADVISOR_WRITE_GOLDEN"):
        _write(path, text)
    golden = path.read_text(encoding="utf-8")
    if not alike_text(text, golden):
        lines = zip_longest(text.splitlines(), golden.splitlines())
        number, (ours, theirs) = next(
            (number, pair) for number, pair in enumerate(lines, 1) if pair[0] != pair[1]
        )
        pytest.fail(f"{path.name}:{number}\n  now    {ours}\n  golden {theirs}")


def assert_golden_document(path, document):
    """A JSON-ready document is the golden file's; a failure names each place where it is not."""
    if os.environ.get("ADVISOR_WRITE_GOLDEN"):
        _write(path, json.dumps(document, indent=1, allow_nan=False, ensure_ascii=False) + "\n")
    golden = json.loads(path.read_text(encoding="utf-8"))
    places = list(_differences(json.loads(json.dumps(document)), golden, path.name))
    if places:
        pytest.fail("\n".join(places[:20]))


def _differences(one, other, place):
    """Yield one line for each leaf of two JSON documents that is not the same: its place and both values."""
    if isinstance(one, dict) and isinstance(other, dict) and one.keys() == other.keys():
        for key in one:
            yield from _differences(one[key], other[key], f"{place}.{key}")
    elif isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        for index, pair in enumerate(zip(one, other, strict=True)):
            yield from _differences(*pair, f"{place}[{index}]")
    elif not _is_same_value(one, other):
        yield f"{place}\n  now    {str(one)[:200]}\n  golden {str(other)[:200]}"


def _is_same_value(one, other):
    if isinstance(one, float) and isinstance(other, float):
        return _close(one, other)
    if isinstance(one, str) and isinstance(other, str):
        return alike_text(one, other)
    return one == other


def _write(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
