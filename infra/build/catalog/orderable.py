"""Types that price lists name and that nobody can order."""

from __future__ import annotations

from collections.abc import Iterable

from advisor.catalog.instances import ORDERABLE_COLUMNS, ORDERABLE_FILE, STATUSES
from advisor.infra.build.catalog.aws.sources import OFFERINGS
from advisor.infra.build.catalog.tables import OutputTable, read_source, table
from advisor.infra.build.catalog.wide import CloudPart

_TYPES_FILE = "catalog/aws_instance_types.csv"


def build_orderable(parts: Iterable[CloudPart]) -> OutputTable:
    """What sources tell, and each type of AWS that no region offers by its list."""
    told = read_source(ORDERABLE_FILE)
    rows = [[row[column] for column in ORDERABLE_COLUMNS] for row in told]
    starts = tuple(row["types"].rstrip("*") for row in told if row["cloud"] == "aws")
    (types,) = (one for part in parts for one in part.tables if one.path == _TYPES_FILE)
    current = types.header.index("current")
    rows += [
        ["aws", row[0], "", "", "unlisted", OFFERINGS.as_of, OFFERINGS.origin]
        for row in types.rows
        if row[current] == "0" and not row[0].startswith(starts)
    ]
    if unknown := {row[4] for row in rows} - STATUSES.keys():
        raise ValueError(f"{ORDERABLE_FILE}: no such status: {unknown}")
    return table(ORDERABLE_FILE, ORDERABLE_COLUMNS, rows)
