"""What must hold of answers about language models, and what does not: a miss is bold."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

LEAST_ROWS = 20
WEAK_HELD = 75.0
_HELD = (88.0, 93.0)
# At most, after three trials: mean and median of TPOT; in the mean: training without the size and
# without the GPU.
_AFTER_THREE = (9.0, 6.0)
_TUNING = {"model size": 10.0, "gpu": 18.0}
# By the way of deciding: at least within 5 % of the best, at most overspent.
_DECIDED = {"predicted": (85.0, 5.0), "with_one_trial": (95.0, 2.0)}
WAYS = {
    "predicted": "predicted",
    "with_one_trial": "with one trial of the first choice",
    "lowest_hourly_price": "lowest hourly price",
}


Document = Mapping[str, Any]
Group = Mapping[str, Any]


class Aim(NamedTuple):
    """What must hold: the figure, where it stands, and the mean and median at most, in per cent."""

    figure: str
    document: str
    quantity: str
    by: str
    group: str
    elsewhere: str
    mean: float
    median: float | None


AIMS = (
    Aim(
        "time of a token (or rate), GPU never measured, one GPU or NVLink",
        "gpu",
        "step",
        "joined",
        "by NVLink, or one GPU",
        "21.8 / 18.4",
        15,
        9.5,
    ),
    Aim("the same, tensor parallel over PCIe", "gpu", "step", "joined", "by PCIe", "-", 25, None),
    Aim("time of a token (or rate), LLM never measured", "model", "step", "all", "all", "-", 16, 11),
    Aim(
        "output tokens/s, closed loop, GPU never measured",
        "gpu",
        "output_rate",
        "kind",
        "closed",
        "25.5 / 20.2",
        14,
        10,
    ),
    Aim(
        "output tokens/s, closed loop, LLM never measured",
        "model",
        "output_rate",
        "kind",
        "closed",
        "25.5 / 20.2",
        14,
        10,
    ),
    Aim("TTFT, closed loop, GPU never measured", "gpu", "ttft", "kind", "closed", "54 / 58", 28, 20),
    Aim("TTFT, closed loop, LLM never measured", "model", "ttft", "kind", "closed", "54 / 58", 28, 20),
)
LEFT_OUT = {
    "shipped": "nothing (these rows taught it)",
    "gpu": "the GPU (all cards of its chip)",
    "model": "the LLM",
    "shape": "every LLM of its shape",
    "engine": "the engine",
    "source": "the source",
}
QUANTITIES = {
    "step": "time of a token, or rate",
    "tpot": "TPOT",
    "ttft": "TTFT",
    "output_rate": "output tokens/s",
}


def group_of(document: Document, quantity: str, by: str, name: str) -> Group | None:
    """One line of a document's tables."""
    return next(
        (
            row
            for row in document["tables"]
            if (row["quantity"], row["by"], row["group"]) == (quantity, by, name)
        ),
        None,
    )


def aims_of(documents: Mapping[str, Document], tuning: Document | None) -> str:
    """The section: each figure that is asked for, with what was measured."""
    lines = ["## What must hold", "", line("figure", "best elsewhere", "must", "measured", "rows")]
    lines.append(rule(5))
    for aim in AIMS:
        found = aim.document in documents and group_of(documents[aim.document], *aim[2:5])
        if found:
            lines.append(line(aim.figure, aim.elsewhere, _aim(aim), _measured(found, aim), f"{found['n']:,}"))
    for name in ("gpu", "model"):
        if name in documents:
            lines += [_held(documents[name], name), *_after_three(documents[name], name)]
            lines += _decided(documents[name], name)
    for row in tuning["tables"] if tuning else ():
        if row["by"] == "all" and row["left_out"] in _TUNING:
            most = _TUNING[row["left_out"]]
            measured = marked(row["mean_percent"], row["mean_percent"] > most)
            lines.append(
                line(
                    f"fine-tuning tokens/s, the {row['left_out']} left out",
                    "18.2" if row["left_out"] == "model size" else "19.9",
                    f"{most:g}",
                    measured,
                    f"{row['n']:,}",
                )
            )
    return "\n".join(lines)


def _after_three(document: Document, name: str) -> list[str]:
    """TPOT after three trials, and how often its bounds held."""
    return [
        line(
            f"TPOT after 3 trials, {LEFT_OUT[name]} left out; 90 % bounds held",
            "-",
            "9 / 6; 88 to 93",
            f"{figures_after(one)}; {held_text(one['after']['held_percent'])}",
            f"{one['after']['n']:,}",
        )
        for one in document["after_trials"]
        if (one["quantity"], one["trials"]) == ("tpot", 3)
    ]


def _decided(document: Document, name: str) -> list[str]:
    """The cheapest choice, with and without a trial."""
    lines = []
    for way, (least, most) in _DECIDED.items():
        found = document["decisions"].get(way, {})
        if found.get("cases"):
            what = f"cheapest choice within 5 %; overspent; {WAYS[way]}, {LEFT_OUT[name]} left out"
            lines.append(
                line(
                    what,
                    "lowest hourly price: 90 % overspent",
                    f"{least:g}; {most:g}",
                    "; ".join(choice(found, way)),
                    str(found["cases"]),
                )
            )
    return lines


def choice(found: Group, way: str) -> tuple[str, str]:
    """Within 5 % and overspent, in per cent."""
    within, over = found["within_5_percent"], found["overspend_percent"]
    least, most = _DECIDED.get(way, (0.0, float("inf")))
    return marked(within, within < least), marked(over, over > most)


def figures_after(one: Group) -> str:
    """Mean and median after trials."""
    asked = _AFTER_THREE if (one["quantity"], one["trials"]) == ("tpot", 3) else None
    figures = one["after"]["mean_percent"], one["after"]["median_percent"]
    most = asked or figures
    return " / ".join(marked(f, f > m) for f, m in zip(figures, most, strict=True))


def held_text(held: float) -> str:
    """How often bounds held, in per cent."""
    return marked(held, not _HELD[0] <= held <= _HELD[1])


def _aim(aim: Aim) -> str:
    return f"{aim.mean:g}" + (f" / {aim.median:g}" if aim.median else "")


def _measured(found: Group, aim: Aim) -> str:
    mean = marked(found["mean_percent"], found["mean_percent"] > aim.mean)
    missed = aim.median is not None and found["median_percent"] > aim.median
    return f"{mean} / {marked(found['median_percent'], missed)}"


def _held(document: Document, name: str) -> str:
    every = group_of(document, "step", "all", "all")
    worst = document["worst_held"]
    assert every
    measured = held_text(every["held_percent"])
    if worst:
        weak = marked(worst["held_percent"], worst["held_percent"] < WEAK_HELD)
        measured += f"; {weak} ({worst['group']})"
    what = f"90 % bounds held, {LEFT_OUT[name]} left out; worst GPU or LLM with 20 rows"
    return line(what, "nobody", "88 to 93; 75", measured, f"{every['n']:,}")


def marked(value: float, missed: bool) -> str:
    """Bold where it is a miss."""
    return f"**{value}**" if missed else f"{value}"


def line(*cells: str) -> str:
    """A row of a table."""
    return "| " + " | ".join(cells) + " |"


def rule(columns: int) -> str:
    """The line below a table's head."""
    return line(*["---"] * columns)
