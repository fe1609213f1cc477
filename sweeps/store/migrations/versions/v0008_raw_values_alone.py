"""Rows hold raw values alone: a rate is computed when it is read.

Older rows have the rate as it was computed when they were written, by the typical step and without
stalls. Nothing reads it; another program that opened the database would.
"""

import json

import sqlalchemy as sql
from alembic import op

revision = "0008"
down_revision = "0007"
_RATE = "throughput_samples_per_second"
_AT_ONCE = 200


def upgrade() -> None:
    """Take the rate out of every payload; one that is damaged stays as it is."""
    connection = op.get_bind()
    for name in ("measurements", "earlier_measurements"):
        table = sql.table(name, sql.column("number"), sql.column("payload"))
        last = 0
        while rows := connection.execute(
            sql.select(table.c.number, table.c.payload)
            .where(table.c.number > last)
            .order_by(table.c.number)
            .limit(_AT_ONCE)
        ).all():
            last = rows[-1].number
            for number, payload in rows:
                without = _without_rate(payload)
                if without != payload:
                    changed = sql.update(table).where(table.c.number == number)
                    connection.execute(changed.values(payload=without))


def _without_rate(payload: str) -> str:
    try:
        document = json.loads(payload)
    except (ValueError, RecursionError):
        return payload
    if not isinstance(document, dict) or _RATE not in document:
        return payload
    del document[_RATE]
    return json.dumps(document)
