"""The command line's errors in a client's words: fields in place of options."""

from __future__ import annotations

import re

_OPTION = re.compile(r"--([a-z][a-z0-9]*(?:-[a-z0-9]+)*)")
# Options that no body has: a client is told what there is instead.
_PHRASES = (
    (
        "for a network of your own give an --anchor FILE that was measured, or --model "
        "file.py:build",
        "/v1/networks tells them; for a network of your own ask by `advisor` where its file is",
    ),
    ("one instance alone is `advisor predict`; name another --instance",
     "one instance alone is /v1/predict; name another instance"),
    ("--instance twice or more", "instance, two or more"),
    ("`advisor catalog list` lists those that are known", "/v1/catalog tells those that are known"),
    ("-o json has all", "the document has all"),
)  # fmt: skip


def in_fields(text: str) -> str:
    """'--target-throughput must be ..' -> 'target_throughput must be ..'; what stands in
    backquotes is a command, and stays."""
    for theirs, ours in _PHRASES:
        text = text.replace(theirs, ours)
    parts = text.split("`")
    parts[::2] = [_OPTION.sub(_field, part) for part in parts[::2]]
    return "`".join(parts)


def way_out_in(text: str) -> str | None:
    """What follows the semicolon of a message: by custom the way out, or what was said ("not 'x'"),
    which is none."""
    _, found, way_out = text.partition("; ")
    return way_out if found and not way_out.startswith("not ") else None


def _field(match: re.Match[str]) -> str:
    return match[1].replace("-", "_")
