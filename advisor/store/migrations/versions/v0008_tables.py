"""All tables, as the first release has them."""

from alembic import op

from advisor.store.schema import METADATA

revision = "0008"
down_revision = None


def upgrade() -> None:
    """Make them."""
    METADATA.create_all(op.get_bind())
