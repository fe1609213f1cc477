"""Answer objects: what the command line prints, as attributes, a pandas table, notebook HTML or a file."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from os import PathLike, fspath
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from advisor.api.calling import Call, errors_with_fields
from advisor.errors import NoOfferError

if TYPE_CHECKING:
    import pandas as pd

    from advisor.answers import context as answers
    from advisor.render.blocks import Leaf, Part


class Record(Mapping[str, Any]):
    """A JSON object as a mapping whose fields are also attributes, such as `price.usd_per_hour`."""

    def __init__(self, values: Mapping[str, Any]) -> None:
        self._values = values

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or name not in self._values:
            known = ", ".join(self._values) if not name.startswith("_") else ""
            raise AttributeError(f"there is no field {name!r} ({known})")
        return self[name]

    def __getitem__(self, name: str) -> Any:
        return _as_record(self._values[name])

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *self._values})

    def __repr__(self) -> str:
        return repr(dict(self._values))

    def to_dict(self) -> dict[str, Any]:
        """The fields as a plain dict, as in the JSON document."""
        return dict(self._values)


def _as_record(value: Any) -> Any:
    if isinstance(value, dict):
        return Record(value)
    return [_as_record(item) for item in value] if isinstance(value, list) else value


class Answer(Record):
    """The answer to a question: `str()` gives the CLI's text, `to_dict()` its JSON; fields are attributes."""

    def __init__(self, document: Callable[[], dict[str, Any]], text: Callable[[], str]) -> None:
        self._document, self._text = document, text
        self._made: dict[str, Any] | None = None

    @property
    def _values(self) -> dict[str, Any]:  # type: ignore[override]
        if self._made is None:
            self._made = self._document()
        return self._made

    def __str__(self) -> str:
        return self._text()

    __repr__ = __str__

    def to_frame(self) -> pd.DataFrame:
        """The answer's rows as a pandas data frame; numbers are not rounded."""
        import pandas as pd

        return pd.DataFrame(self._rows())

    def _rows(self) -> list[dict[str, Any]]:
        return [dict(_flat(self._values))]

    def _repr_html_(self) -> str | None:
        """HTML for a notebook; None if the answer has no HTML form, so that the notebook shows the text."""
        from advisor.render.html import fragment_html

        blocks = self._blocks()
        return fragment_html(blocks) if blocks else None

    def _blocks(self) -> list[Leaf | Part]:
        return []


def _flat(record: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """A record's names and values, without lists; nested fields have joined names (`price_usd_per_hour`)."""
    for name, value in record.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{prefix}{name}_")
        elif not isinstance(value, list):
            yield f"{prefix}{name}", value


class Recommendation(Answer):
    """The cheapest spec that meets the target and the limits, in `.recommendation`; if none does, that is
    None, and `.nearest` and `.relax` are set. Other fields: `.alternatives`, `.warnings`, `.request`."""

    def __init__(self, result: answers.Recommended, call: Call) -> None:
        super().__init__(result.document, lambda: result.text(call.question.max_shown))
        self._result, self._call = result, call

    def require(self) -> Self:
        """Return this answer; raise `NoOfferError`, naming the nearest spec, if nothing is recommended."""
        if self._result.result.chosen is None:
            with errors_with_fields():
                raise NoOfferError(self._result.no_offer())
        return self

    def export(self, format: str) -> str:
        """The answer in a format of the CLI's `-o` (json, yaml, csv, md) or `--export` (terraform, ..)."""
        with errors_with_fields():
            return self._result.written(format)

    def report(self, file: str | PathLike[str], *, language: str = "en", title: str = "") -> Path:
        """Write a self-contained sizing report and return the file's path. The suffix sets the format: .html,
        .pdf, .xlsx, .md, .csv or .json. HTML, PDF and XLSX need the extra `report`."""
        from advisor.answers.reporting.reports import report_of_question
        from advisor.files import require_writable, write_whole
        from advisor.render.formats import format_of_file, report_format

        path = Path(fspath(file))
        with errors_with_fields():
            kind = report_format(format_of_file(path.name))
            kind.require_packages()
            require_writable(path)
            document = report_of_question(self._call.question, self._call.sources, title)
            write_whole(path, kind.content(document, language))
        return path

    def _rows(self) -> list[dict[str, Any]]:
        from advisor.render.tables import ranked_rows

        return ranked_rows(self._values)

    def _blocks(self) -> list[Leaf | Part]:
        from advisor.answers.reporting.sections import bare_section
        from advisor.render.views.report import short_parts

        return list(short_parts({**bare_section(self._values), "complete": True}))


class Prediction(Answer):
    """The predicted rate of one instance or GPU: `.predicted`, `.price`, `.bottleneck`."""


class Comparison(Answer):
    """Instances or GPUs compared with a baseline, whose rate counts as 1."""

    def __init__(self, result: answers.Answer) -> None:
        super().__init__(result.document, result.text)
        self._result = result

    def _rows(self) -> list[dict[str, Any]]:
        return self._result.rows()


class Listing(Answer):
    """A list of records in a field named after them: `.gpus`, `.networks` or `.offers`."""

    def __init__(self, document: Callable[[], dict[str, Any]], text: Callable[[], str], field: str) -> None:
        super().__init__(document, text)
        self._field = field

    def _rows(self) -> list[dict[str, Any]]:
        return [dict(_flat(record)) for record in self._values[self._field]]


class Memory(Listing):
    """The GPU memory that a workload needs, and the GPUs on which it fits (`.gpus`)."""
