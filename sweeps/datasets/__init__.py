"""Data sets for trials: made here from photographs, or a folder of the user's own."""
