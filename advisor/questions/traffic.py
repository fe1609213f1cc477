"""Lengths of prompts and answers: published traces by name, and a user's files."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from advisor.catalog.bundle import DATA_FOLDER
from advisor.errors import UsageError, unknown_name
from advisor.messages import Message
from advisor.questions.fields import error_in

# Names in `advisor/data/language/traffic.csv`, which is read only when a trace is used.
KNOWN_TRAFFIC = ("chat", "code", "summary")
USUAL_TRAFFIC = "chat"
# No request is longer; a larger number has the wrong unit.
MOST_REQUEST_TOKENS = 10**8
# Column names of this product, and of the traces of Azure, Mooncake and BurstGPT.
_INPUT = ("input_tokens", "contexttokens", "input_length", "request tokens")
_OUTPUT = ("output_tokens", "generatedtokens", "output_length", "response tokens")
_OTHER_SEPARATORS = ";\t|"

# 99 % of a normal distribution lie below so many standard deviations.
_NORMAL_P99 = 2.3263

Array: TypeAlias = "np.ndarray[Any, np.dtype[np.float64]]"


class Lengths(NamedTuple):
    """Tokens of prompts or of answers: mean and 99th percentile."""

    mean: float
    p99: float

    @property
    def log_deviation(self) -> float:
        """Standard deviation of log lengths, if lengths are log-normal with this mean and p99."""
        # ln(p99 / mean) = 2.326 s - s^2 / 2, up to its largest value.
        longer = min(math.log(max(self.p99 / self.mean, 1.0)), _NORMAL_P99**2 / 2)
        return _NORMAL_P99 - math.sqrt(_NORMAL_P99**2 - 2 * longer)


class TrafficProfile(NamedTuple):
    """The lengths of requests, and their source.

    `totals` are the tokens of each request in a file, shortest first; `failed` counts requests without an
    answer, which are left out."""

    name: str
    source: str
    input_tokens: Lengths
    output_tokens: Lengths
    totals: Array | None = None
    failed: int = 0

    @property
    def longest_tokens(self) -> int:
        """Tokens of a long prompt with a long answer: both 99th percentiles."""
        return math.ceil(self.input_tokens.p99 + self.output_tokens.p99)

    def notes(self, most: int | None) -> Iterator[Message]:
        """Warnings about requests that failed, or are longer than the `most` tokens that a server takes."""
        if self.failed:
            yield Message(
                "{count:,} requests of {traffic} have no answer, and are left out",
                code="failed_requests",
                count=self.failed,
                traffic=self.name,
            )
        if most is None or (self.totals is None and self.longest_tokens <= most):
            return
        if self.totals is None:
            yield Message(
                "some requests of {traffic} are longer than the {most:,} tokens that are served, "
                "and are refused: the mean still counts them",
                code="refused_requests",
                traffic=self.name,
                most=most,
            )
        elif share := 1 - float(np.searchsorted(self.totals, most, "right")) / len(self.totals):
            yield Message(
                "{percent:.2g} % of the requests of {traffic} are longer than the {most:,} tokens "
                "that are served, and are refused: the mean still counts them",
                code="refused_requests",
                percent=100 * share,
                traffic=self.name,
                most=most,
            )


def traffic_named(text: str) -> TrafficProfile:
    """A published trace, or the requests in a CSV or JSONL file; `UsageError` for neither."""
    if text.lower() in KNOWN_TRAFFIC:
        return _published_trace(text.lower())
    path = Path(text)
    if not path.is_file():
        known = (*KNOWN_TRAFFIC, "a CSV or JSONL file")
        raise unknown_name("traffic", text, known, field="traffic")
    return traffic_of_file(path)


def traffic_of_file(path: Path) -> TrafficProfile:
    """The requests in a file, one per line: CSV with a header, or JSON objects.

    Requests without an answer are left out. `UsageError` names the line of a request without such numbers,
    and refuses columns of no known trace."""
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise error_in("traffic", "'{file}' cannot be read: {why}", file=str(path), why=str(error)) from None
    return _traffic_of(text, path)


@lru_cache(maxsize=1)  # a question needs the file's means, and its warnings each request
def _traffic_of(text: str, path: Path) -> TrafficProfile:
    records = _json_lines(text, path) if text.lstrip().startswith("{") else _csv_lines(text, path)
    every = np.asarray([_lengths(record, line, path) for line, record in records], dtype=float)
    requests = every[every[:, 1] > 0] if len(every) else every
    if not len(requests):
        raise error_in(
            "traffic",
            "'{file}' has no requests",
            file=str(path),
            hint="write a line for each, with input_tokens and output_tokens",
        )
    inputs, outputs = requests.T
    read, written = (Lengths(float(side.mean()), float(np.quantile(side, 0.99))) for side in requests.T)
    totals, failed = np.sort(inputs + outputs), len(every) - len(requests)
    return TrafficProfile(path.name, str(path), read, written, totals, failed)


def _published_trace(name: str) -> TrafficProfile:
    import csv  # questions about networks do not need it

    text = (DATA_FOLDER / "language" / "traffic.csv").read_text(encoding="utf-8")
    row = next(row for row in csv.DictReader(text.splitlines()) if row["name"] == name)
    source = f"{row['trace']}, {row['source']}, {row['licence']}"
    inputs, outputs = (
        Lengths(*(float(row[f"{side}_{name}"]) for name in Lengths._fields)) for side in ("input", "output")
    )
    return TrafficProfile(name, source, inputs, outputs)


def _csv_lines(text: str, path: Path) -> Iterator[tuple[int, Mapping[str, Any]]]:
    import csv
    import io

    header = text.partition("\n")[0]
    for separator in _OTHER_SEPARATORS if "," not in header else "":
        if separator in header:
            raise error_in(
                "traffic",
                "'{file}' has '{separator}' between its columns",
                file=str(path),
                separator=repr(separator)[1:-1],
                hint="write commas between them",
            )
    reader = csv.DictReader(io.StringIO(text, newline=""))
    try:
        for record in reader:
            yield reader.line_num, record
    except csv.Error as error:
        raise error_in(
            "traffic", "line {line} is no CSV: {why}", line=reader.line_num, why=str(error)
        ) from None


def _json_lines(text: str, path: Path) -> Iterator[tuple[int, Mapping[str, Any]]]:
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip():
            continue
        try:
            record = json.loads(line)
        except (ValueError, RecursionError):
            record = None
        if not isinstance(record, dict):
            raise _request_error(number, path)
        yield number, record


def _lengths(record: Mapping[str, Any], line: int, path: Path) -> tuple[float, float]:
    cells = {str(name).strip().casefold(): value for name, value in record.items()}
    return _tokens(cells, _INPUT, 1, line, path), _tokens(cells, _OUTPUT, 0, line, path)


def _tokens(cells: Mapping[str, Any], names: tuple[str, ...], least: int, line: int, path: Path) -> float:
    value = next((cells[name] for name in names if name in cells), cells)
    if value is cells:
        raise error_in(
            "traffic",
            "'{file}', line {line}, has no {column}",
            file=str(path),
            line=line,
            column=names[0],
            hint=_COLUMNS,
        )
    try:
        tokens = float(value) if isinstance(value, (str, int, float)) else math.nan
    except (ValueError, OverflowError):
        tokens = math.nan
    if isinstance(value, bool) or not least <= tokens <= MOST_REQUEST_TOKENS:
        raise _request_error(line, path)
    return tokens


_COLUMNS = Message(
    "write {names}; the columns of Azure's, Mooncake's and BurstGPT's traces are known too",
    names=("input_tokens", "output_tokens"),
)


def _request_error(line: int, path: Path) -> UsageError:
    return error_in(
        "traffic",
        "'{file}', line {line}, is no request",
        file=str(path),
        line=line,
        hint=Message(
            "write {names}, each from 1 to {most:,}",
            names=("input_tokens", "output_tokens"),
            most=MOST_REQUEST_TOKENS,
        ),
    )
