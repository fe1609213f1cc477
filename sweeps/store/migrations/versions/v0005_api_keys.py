"""Keys of the HTTP service, and the page's sessions."""

import sqlalchemy as sql
from alembic import op

revision = "0005"
down_revision = "0004"


def upgrade() -> None:
    """Add the tables."""
    op.create_table(
        "api_keys",
        sql.Column("number", sql.Integer, primary_key=True, autoincrement=True),
        sql.Column("key_id", sql.String(16), nullable=False, unique=True),
        sql.Column("name", sql.String(64), nullable=False, index=True),
        sql.Column("scope", sql.String(16), nullable=False),
        sql.Column("digest", sql.String(64), nullable=False),
        sql.Column("created_at", sql.Double, nullable=False),
        sql.Column("expires_at", sql.Double, nullable=True),
        sql.Column("last_used_at", sql.Double, nullable=True),
        sql.Column("revoked_at", sql.Double, nullable=True),
    )
    op.create_table(
        "api_sessions",
        sql.Column("digest", sql.String(64), primary_key=True),
        sql.Column("key_id", sql.String(16), nullable=False, index=True),
        sql.Column("created_at", sql.Double, nullable=False),
        sql.Column("expires_at", sql.Double, nullable=False),
    )
