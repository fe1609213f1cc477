"""Questions: typed and validated, whichever door they came through."""
