"""Run by Alembic: migrates on the connection, and in the transaction, that the caller has."""

from alembic import context

connection = context.config.attributes["connection"]
context.configure(connection=connection, version_table=context.config.attributes["version_table"])
context.run_migrations()
