"""Data sets for trials: made here from photographs, or read from a user's folder."""
