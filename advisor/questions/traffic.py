"""How long prompts and answers are: published traces by name, and files of the user's own."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from advisor.catalog.files import DATA_FOLDER
from advisor.errors import UsageError, unknown_name
from advisor.messages import Message
from advisor.questions.fields import wrong

# The names of `advisor/data/language/traffic.csv`, which is read when one is asked for.
KNOWN_TRAFFIC = ("chat", "code", "summary")
USUAL_TRAFFIC = "chat"
# A longer request is a mistake of units.
MOST_REQUEST_TOKENS = 10**8
# As this product calls the columns, and as Azure's traces do.
_INPUT, _OUTPUT = ("input_tokens", "ContextTokens"), ("output_tokens", "GeneratedTokens")


class Lengths(NamedTuple):
    """Tokens of prompts or of answers: their mean, median and 99th percentile."""

    mean: float
    p50: float
    p99: float


class TrafficProfile(NamedTuple):
    """Requests by their lengths; `source` says where they are from."""

    name: str
    source: str
    input_tokens: Lengths
    output_tokens: Lengths

    @property
    def longest_tokens(self) -> int:
        """A long prompt with a long answer: the 99th percentiles of both."""
        return math.ceil(self.input_tokens.p99 + self.output_tokens.p99)


def traffic_named(text: str) -> TrafficProfile:
    """A published trace, or the requests of a CSV or JSONL file; `UsageError` for neither."""
    if text.lower() in KNOWN_TRAFFIC:
        return _published(text.lower())
    path = Path(text)
    if not path.is_file():
        known = (*KNOWN_TRAFFIC, "a CSV or JSONL file")
        raise unknown_name("traffic", text, known, field="traffic")
    return traffic_of_file(path)


def traffic_of_file(path: Path) -> TrafficProfile:
    """One request a line, with its tokens: CSV with a header, or JSON objects.

    Raises `UsageError` with the line where a request has no such numbers.
    """
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise wrong("traffic", "'{file}' cannot be read: {why}", file=str(path),
                    why=str(error)) from None  # fmt: skip
    records = _json_lines(text, path) if text.lstrip().startswith("{") else _csv_lines(text)
    requests = [_request(record, line, path) for line, record in records]
    if not requests:
        raise wrong("traffic", "'{file}' has no requests", file=str(path),
                    hint="write a line for each, with input_tokens and output_tokens")  # fmt: skip
    inputs, outputs = np.asarray(requests, dtype=float).T
    return TrafficProfile(path.name, str(path), _lengths(inputs), _lengths(outputs))


def _published(name: str) -> TrafficProfile:
    import csv  # whoever asks about a network does not wait for it

    text = (DATA_FOLDER / "language" / "traffic.csv").read_text(encoding="utf-8")
    row = next(row for row in csv.DictReader(text.splitlines()) if row["name"] == name)
    source = f"{row['trace']}, {row['source']}, {row['licence']}"
    return TrafficProfile(name, source, _published_lengths(row, "input"),
                          _published_lengths(row, "output"))  # fmt: skip


def _published_lengths(row: Mapping[str, str], side: str) -> Lengths:
    return Lengths(*(float(row[f"{side}_{name}"]) for name in ("mean", "p50", "p99")))


def _lengths(tokens: np.ndarray[Any, np.dtype[np.float64]]) -> Lengths:
    p50, p99 = np.quantile(tokens, (0.5, 0.99))
    return Lengths(float(tokens.mean()), float(p50), float(p99))


def _csv_lines(text: str) -> Iterator[tuple[int, Mapping[str, Any]]]:
    import csv
    import io

    reader = csv.DictReader(io.StringIO(text, newline=""))
    try:
        for record in reader:
            yield reader.line_num, record
    except csv.Error as error:
        raise wrong("traffic", "line {line} is no CSV: {why}", line=reader.line_num,
                    why=str(error)) from None  # fmt: skip


def _json_lines(text: str, path: Path) -> Iterator[tuple[int, Mapping[str, Any]]]:
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip():
            continue
        try:
            record = json.loads(line)
        except (ValueError, RecursionError):
            record = None
        if not isinstance(record, dict):
            raise _no_request(number, path)
        yield number, record


def _request(record: Mapping[str, Any], line: int, path: Path) -> tuple[float, float]:
    return _tokens(record, _INPUT, line, path), _tokens(record, _OUTPUT, line, path)


def _tokens(record: Mapping[str, Any], names: tuple[str, ...], line: int, path: Path) -> float:
    value = next((record[name] for name in names if name in record), None)
    try:
        tokens = float(value) if isinstance(value, (str, int, float)) else math.nan
    except (ValueError, OverflowError):
        tokens = math.nan
    if isinstance(value, bool) or not 1 <= tokens <= MOST_REQUEST_TOKENS:
        raise _no_request(line, path)
    return tokens


def _no_request(line: int, path: Path) -> UsageError:
    return wrong(
        "traffic", "'{file}', line {line}, is no request", file=str(path), line=line,
        hint=Message("write {names}, each 1 or more", names=("input_tokens", "output_tokens")),
    )  # fmt: skip
