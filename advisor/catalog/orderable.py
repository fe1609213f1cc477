"""Types that price lists name and that cannot be ordered: a table with a source and a day a row."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import date

from advisor.catalog.files import Files
from advisor.catalog.live import cloud_title
from advisor.domain.orderable import NotOrderable
from advisor.messages import FieldName, Message

ORDERABLE_FILE = "catalog/not_orderable.csv"
ORDERABLE_COLUMNS = ("cloud", "types", "market", "region", "status", "as_of", "source")
# By status: what is said of a type. A market is named where only that one is closed.
STATUSES = {
    "retired": Message("{cloud} retired it on {as_of}"),
    "undescribed": Message("retired: {cloud} describes it no longer (seen on {as_of})"),
    "unlisted": Message("retired: {cloud}'s list of {as_of} has it in no region"),
    "spot_only": Message(
        "not sold on demand (seen on {as_of}), spot and flex-start only: ask with {market} spot"
    ),
    "reserved": Message(
        "not sold on demand (seen on {as_of}): {cloud} sells it by reservation or capacity block"
    ),
    "withdrawn": Message("{region} no longer offers it ({cloud} said so on {as_of})"),
    "elsewhere": Message("not offered in this region"),
}


def closed_types(files: Files, cloud: str, names: Iterable[str]) -> dict[str, list[NotOrderable]]:
    """Rows of the table that close types of a cloud, by type; a row whose type ends in `*` is of all types
    that begin so."""
    found: dict[str, list[NotOrderable]] = {}
    if not files.has(ORDERABLE_FILE):
        return found
    for row in files.table(ORDERABLE_FILE).records():
        if row["cloud"] != cloud:
            continue
        told = {name: row[name] for name in ("status", "market", "region", "source")}
        one = NotOrderable(cloud=cloud, as_of=date.fromisoformat(row["as_of"]), **told)
        start, star, _ = row["types"].partition("*")
        for name in [name for name in names if name.startswith(start)] if star else [start]:
            found.setdefault(name, []).append(one)
    return found


def why_closed(closed: NotOrderable) -> Message:
    """The reason in words, with the way out where there is one; its code is the status."""
    day = str(closed.as_of or "")
    said = {"cloud": cloud_title(closed.cloud), "region": closed.region, "as_of": day}
    text = STATUSES[closed.status].text
    return Message(text, code=closed.status, market=FieldName("market"), **said)
