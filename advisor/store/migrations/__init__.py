"""How older databases become today's: Alembic runs `versions` in their order."""
