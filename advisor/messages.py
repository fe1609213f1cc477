"""Messages: texts with parameters that are translated only when they are printed.

A message is an English text with named parameters, as in gettext and Fluent:
`Message("needs {needed:mib} of RAM, has {available:mib}", needed=2048.0, available=1024.0)`.
`str(message)` is English; `message.render(translate)` gives another language, by the catalogues of
`advisor.render.i18n`. Numbers stay numbers until they are printed; a format from `FORMATS` names
their unit. Code must not read, split or match the text; it decides by `code`.

All quantities are written here, with binary sizes (1 MiB is 2**20 bytes); `advisor.quantities` reads them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from string import Formatter
from typing import Any

from advisor.domain import Range


def format_range(limits: Range, write: Callable[[float], str]) -> str:
    """The range as `parse_range` reads it: '4..16', '4..', or '8'; `write` formats each end."""
    if limits.limits and limits.least == limits.most:
        return write(limits.least or 0.0)
    ends = (write(end) if end is not None else "" for end in (limits.least, limits.most))
    return "..".join(ends)


def range_text(limits: Range, write: Callable[[float], str]) -> str | None:
    """The range as an option takes it; None for a range without limits."""
    return format_range(limits, write) if limits.limits else None


def size_text(mib: float) -> str:
    """The exact size as options take it: 24576 -> '24GiB'."""
    gib = mib / 1024
    return f"{gib:g}GiB" if float(f"{gib:g}") == gib else f"{mib:.10g}MiB"


def gpus_text(names: Iterable[str], memory_mib: Range, capability: Range) -> str | None:
    """A choice of GPUs as `--gpu` takes it: 'A100,40GiB..,cc8.0..'; None for any GPU."""
    parts = list(names)
    if memory_mib.limits:
        ends = (memory_mib.least, memory_mib.most)
        parts.append("..".join("" if end is None else size_text(end) for end in ends))
    if capability.limits:
        parts.append("cc" + format_range(capability, "{:.1f}".format))
    return ",".join(parts) or None


def format_mib(mib: float) -> str:
    """The size in a suitable unit: 2048 -> '2 GiB', 1536 -> '1.5 GiB', 512 -> '512 MiB'."""
    if mib >= 1024**2:
        return f"{mib / 1024**2:.3g} TiB"
    return f"{mib / 1024:.4g} GiB" if mib >= 1024 else f"{mib:.4g} MiB"


def format_usd(usd: float) -> str:
    """Dollars with as many digits as prices have: '$0.526', '$12.24', '$1,035', '$0.0042', '-$0.500', '$0'.

    The number of digits depends on the rounded amount: 9.9996 is '$10.00'."""
    sign, amount = ("-" if usd < 0 else ""), abs(usd)
    if amount == 0:
        return "$0"
    if round(amount, 3) >= 10:
        return f"{sign}${amount:,.2f}" if round(amount, 2) < 100 else f"{sign}${amount:,.0f}"
    return f"{sign}${amount:.3f}" if round(amount, 4) >= 0.1 else f"{sign}${amount:.4f}"


def short_usd(usd: float) -> str:
    """The cost of a run or a trial in few digits: '$8.05', '$0.16', '$0.024', '$128'."""
    if 0 < usd < 0.0001:
        return "under $0.0001"
    return f"${usd:,.2f}" if 0.1 <= usd < 99.995 else f"${usd:,.0f}" if usd >= 1 else f"${usd:.2g}"


def sum_of_shown(costs: Iterable[float]) -> float:
    """The sum of costs as `short_usd` writes them: what readers get who add them up."""
    return sum(float(short_usd(usd).removeprefix("under ").strip("$").replace(",", "")) for usd in costs)


def format_rate(samples_per_second: float) -> str:
    """A rate with three significant digits and grouped thousands: '1,230', '45.6', '0.789'."""
    if samples_per_second >= 100:
        digits = max(0, len(str(int(samples_per_second))) - 3)
        return f"{round(samples_per_second, -digits):,.0f}"
    return f"{samples_per_second:.3g}"


def format_target(samples_per_second: float) -> str:
    """A target rate with all its digits: '1,961', '0.25'."""
    return f"{samples_per_second:,.12g}"


def format_count(count: float) -> str:
    """A count as '900', '12,800', '1.28 million' or '1.15 billion': three digits from a million on."""
    if count >= 1e9:
        return f"{format_rate(count / 1e9)} billion"
    return f"{format_rate(count / 1e6)} million" if count >= 1e6 else f"{count:,.0f}"


def format_counted(count: float, noun: str) -> str:
    """A count with a regular noun: '1 epoch', '2.5 epochs', '1.28 million samples'."""
    text = f"{count:g}" if count < 1e4 else format_count(count)
    return f"{text} {noun}" if count == 1 else f"{text} {noun}s"


# From this many hours on, minutes are left out; from a week on, days are added, from two months on months.
_WHOLE_HOURS, _WEEK, _MONTH = 48, 168, 730


def format_span(hours: float, *, up: bool = False) -> str:
    """The duration of a run as '48 min', '11 h 3 min', '76 h', '220 h (9 days)' or '6,709 h (9 months)'. It
    is rounded up if `up`, which an upper bound needs."""
    if hours >= _WHOLE_HOURS:
        long = f"{hours / _MONTH:,.0f} months" if hours >= 2 * _MONTH else f"{hours / 24:.0f} days"
        return f"{math.ceil(hours) if up else round(hours):,} h" + (f" ({long})" if hours >= _WEEK else "")
    step = 60 if hours > 1 / 40 else 1
    return format_duration(step * math.ceil(3600 / step * hours) if up else 3600 * hours)


def ceil_span(hours: float) -> float:
    """Hours rounded up to the resolution of `format_span`, so that a value above a limit stays above it."""
    parts = 1 if hours >= _WHOLE_HOURS else 60
    return math.ceil(parts * hours) / parts if math.isfinite(hours) else hours


def format_duration(seconds: float) -> str:
    """A duration as '45 s', '12 min' or '1 h 26 min': to the second below 90 s, else to the minute."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    if minutes < 60:
        return f"{minutes} min"
    hours, rest = divmod(minutes, 60)
    return f"{hours} h {rest} min" if rest else f"{hours} h"


def ceil_significant(value: float) -> float:
    """The value rounded up to three significant digits, so that a printed upper bound holds."""
    if not 0 < value < math.inf:
        return value
    step = 10.0 ** (math.floor(math.log10(value)) - 2)
    return float(f"{math.ceil(value / step - 1e-9) * step:.6g}")


def ceil_ms(seconds: float) -> float:
    """Milliseconds from seconds, rounded up to three significant digits."""
    return ceil_significant(seconds * 1000)


def floor_rate(samples_per_second: float) -> float:
    """The rate rounded down to three significant digits, so that a printed lower bound holds."""
    if samples_per_second <= 0:
        return 0.0
    step = 10.0 ** (math.floor(math.log10(samples_per_second)) - 2)
    return float(f"{math.floor(samples_per_second / step) * step:.6g}")


Translate = Callable[[str], str]
# Maps a field to the name that users know: `--max-latency-ms` on a command line, `max_latency_ms` over HTTP.
Spell = Callable[[str], str]

# The formats that a text may give after a parameter, as in {needed:mib}, besides those of Python.
FORMATS: Mapping[str, Callable[[Any], str]] = {
    "mib": format_mib,
    "usd": format_usd,
    "rate": format_rate,
    "target": format_target,
    "count": format_count,
    "hours": format_span,
    "duration": format_duration,
}


class FieldName(str):
    """A parameter of a message that names a field of a question, such as `max_latency_ms`."""

    __slots__ = ()


def option_name(field: str) -> str:
    """The command-line option of a field: 'max_latency_ms' -> '--max-latency-ms'."""
    return "--" + field.replace("_", "-")


class Message:
    """A text with its parameters and, if programs need to recognise it, a code.

    A parameter may be a number, a name, a `Message`, or a sequence of these, which is joined by commas."""

    __slots__ = ("code", "parameters", "text")

    def __init__(self, text: str, /, *, code: str = "", **parameters: object) -> None:
        self.text = text
        self.code = code
        self.parameters = parameters

    def __str__(self) -> str:
        return self.render(str)

    def __repr__(self) -> str:
        return f"Message({str(self)!r})"

    def __eq__(self, other: object) -> bool:
        mine = self.text, self.code, self.parameters
        return isinstance(other, Message) and mine == (other.text, other.code, other.parameters)

    def __hash__(self) -> int:
        return hash((self.text, self.code))

    def render(self, translate: Translate, spell: Spell = option_name) -> str:
        """The message in the language of `translate`; `spell` gives the names of fields."""
        text = translate(self.text)
        if not self.parameters:
            return text
        written = []
        for literal, name, form in _parsed(text):
            written.append(literal)
            if name is not None:
                written.append(_written(self.parameters[name], form, translate, spell))
        return "".join(written)


def code_of(sentence: object) -> str:
    """The code that identifies a sentence; '' for a plain text, as saved answers hold."""
    return str(getattr(sentence, "code", ""))


# The separator between the items of a list.
COMMA = Message(", ")


def render(said: Message | str, translate: Translate, spell: Spell = option_name) -> str:
    """A message, or a plain text, in the language of `translate`; `spell` gives the names of fields."""
    return said.render(translate, spell) if isinstance(said, Message) else translate(said)


@lru_cache(maxsize=4096)
def _parsed(text: str) -> tuple[tuple[str, str | None, str], ...]:
    """The parts of a text: literal text, the name of the parameter after it (or None), and its format.
    They are cached because an answer has dozens of messages, and `str.format` parses a text every time."""
    return tuple((literal, name, form or "") for literal, name, form, _ in Formatter().parse(text))


def _written(value: Any, form: str, translate: Translate, spell: Spell) -> str:
    """A parameter as text: numbers in the given format, messages translated, sequences joined."""
    if isinstance(value, Message):
        return value.render(translate, spell)
    if isinstance(value, str):  # a text ignores the format
        return spell(value) if isinstance(value, FieldName) else value
    if isinstance(value, (list, tuple)):
        return translate(COMMA.text).join(_written(item, form, translate, spell) for item in value)
    in_unit = FORMATS.get(form)
    return in_unit(value) if in_unit else format(value, form)
